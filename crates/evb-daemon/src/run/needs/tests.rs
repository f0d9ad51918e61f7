use std::{fs, os::unix::fs::symlink, path::Path};

use evb_config::{Problems, read};
use evb_core::id::{BuilderId, Peer, SourceId};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{missing, of_host};

#[test]
fn only_what_is_hosted_is_looked_for_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = \"{here}/journal\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nids = \"1-2\"\ninput = {{ kind = \"replay\", format = \"evb\", path = \"{here}/absent\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"file\", path = \"{here}/deep/out\" }}\n"
    );
    let loaded = read(&text, "system.toml").unwrap();
    let missing = |hosted: &[Peer]| missing(&loaded.config, &loaded.origin, hosted);
    assert!(missing(&[Peer::Supervisor, Peer::Builder(BuilderId::new(1))]).is_empty());
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    fs::write(directory.path().join("journal"), "what was").unwrap();
    assert!(missing(&[Peer::Supervisor]).is_empty());
    assert_eq!(fs::read_to_string(directory.path().join("journal")).unwrap(), "what was");
    let sources = missing(&[Peer::Source(SourceId::new(1)), Peer::Source(SourceId::new(2))]);
    assert_eq!(sources.iter().count(), 1, "one line, said once: {sources}");
    assert!(sources.iter().all(|problem| sources.line_of(problem) == 7), "{sources}");
}

#[test]
fn a_program_of_a_hosted_source_must_be_there() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(at("text"), "no program").unwrap();
    for (program, reason) in [
        ("sh", None),
        ("/bin/sh", None),
        (&at("absent"), Some("No such file or directory")),
        (&at("text"), Some("Permission denied")),
        (&at(""), Some("it is no file")),
        ("no-program-has-this-name", Some("no directory of PATH has such a program")),
    ] {
        let text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n[control]\n\
             [[source]]\nid = 1\ninput = {{ kind = \"tcp\", listen = \"127.0.0.1:7201\",\n  on_stop = {{ run = [\"{program}\", \"x\"] }} }}\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n"
        );
        let loaded = read(&text, "system.toml").unwrap();
        let problems = missing(&loaded.config, &loaded.origin, &[Peer::Source(SourceId::new(1))]);
        let found: Vec<_> = problems.iter().collect();
        match reason {
            None => assert!(problems.is_empty(), "{problems}"),
            Some(reason) => {
                assert!(problems.are_fatal() && found[0].reason.contains(reason), "{problems}");
                assert_eq!(
                    (found[0].key.as_str(), problems.line_of(found[0])),
                    ("source.input.on_stop.run", 8)
                );
            }
        }
        assert!(missing(&loaded.config, &loaded.origin, &[Peer::Supervisor]).is_empty());
    }
}

/// Returns the problems of a supervisor, source 1 and builder 1 that need the given files.
fn missing_of(journal: &Path, replayed: &Path, sink: &Path) -> Problems {
    let (journal, replayed, sink) = (journal.display(), replayed.display(), sink.display());
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = \"{journal}\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nid = 1\ninput = {{ kind = \"replay\", format = \"km3net\", path = \"{replayed}\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"file\", path = \"{sink}\" }}\n"
    );
    let loaded = read(&text, "system.toml").unwrap();
    let hosted = [Peer::Supervisor, Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1))];
    missing(&loaded.config, &loaded.origin, &hosted)
}

#[test]
fn links_are_followed_to_where_files_will_be() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let slices = at("slices");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/km3net_l1_timeslices.dat");
    symlink(recorded, &slices).unwrap();
    fs::create_dir(at("there")).unwrap();
    symlink("there", at("out")).unwrap();
    symlink("there/journal", at("journal")).unwrap();
    assert!(missing_of(&at("journal"), &slices, &at("out/of/it")).is_empty());
    // The missing target of the link represents a disk that is not mounted.
    symlink("absent/deeper", at("nowhere")).unwrap();
    let keys = |problems: &Problems| problems.iter().map(|problem| problem.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&missing_of(&at("journal"), &slices, &at("nowhere"))), ["builder.sink.path"]);
    assert_eq!(keys(&missing_of(&at("nowhere"), &slices, &at("out"))), ["supervisor.journal"]);
    assert_eq!(
        keys(&missing_of(&at("slices/journal"), &slices, &at("slices/out"))),
        ["supervisor.journal", "builder.sink.path"]
    );
}

#[test]
fn timeslices_are_a_file_and_a_pipe_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let problems = missing_of(&at("journal"), directory.path(), &at("out"));
    assert_eq!(problems.iter().count(), 1, "{problems}");
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Opening the pipe would wait for a writer.
    assert!(missing_of(&at("journal"), &at("pipe"), &at("out")).is_empty());
}

#[test]
fn a_mechanism_that_this_host_lacks_ends_a_member_and_makes_a_supervisor_wait() {
    let text = "[control]\nlisten = \"127.0.0.1:7999\"\n\
         [supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"as-fast-as-possible\" }\n\
         [network]\ntransport = \"udp\"\nlink_rate = \"1 Gbit/s\"\n\
         [shaping]\nmode = \"token-bucket\"\nrate = \"1 Mbit/s\"\noffload = \"txtime\"\n\
         [[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    let loaded = read(text, "system.toml").unwrap();
    let found = |hosted: &[Peer]| of_host(&loaded.config, &loaded.origin, hosted);
    let source = Peer::Source(SourceId::new(1));
    let (alone, whole) = (found(&[source]), found(&[Peer::Supervisor, source]));
    assert!(alone.to_string().contains("shaping.offload") && alone.are_fatal(), "{alone}");
    assert!(whole.to_string().contains("shaping.offload") && !whole.are_fatal(), "{whole}");
}
