//! Runs that cannot begin: exit code 2 if the configuration is wrong, 1 if a peer does not
//! register.

mod fleet;

use std::{
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use fleet::{Plan, problems};

const LIMIT: Duration = Duration::from_secs(20);

/// Runs a configuration in one process. Returns the exit code and the text on standard error.
fn run(text: &str) -> (Option<i32>, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    run_file(file.path())
}

/// Runs a configuration of [`system`] whose run begins, at ports that no other test has.
fn run_alone(text: &str) -> (Option<i32>, String) {
    let ports = evb_needs::free_ports(2).into_iter();
    let text = ["7000", "7101"].iter().zip(ports).fold(text.to_owned(), |text, (port, free)| {
        text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{free}"))
    });
    run(&text)
}

fn run_file(path: &Path) -> (Option<i32>, String) {
    evbd(&["run", "--quiet"], path)
}

fn evbd(arguments: &[&str], path: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_evbd")).args(arguments).arg(path).output();
    let output = output.expect("evbd starts");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn system(builders: &str, extra: &str) -> String {
    format!(
        "[run]\nevents = 10\n{extra}\n[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n[[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n{builders}"
    )
}

/// Each missing file is reported before any role listens, with its line: the third of three
/// sources, and all problems at once.
#[test]
fn files_that_roles_need_and_do_not_have_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path().display();
    std::fs::write(directory.path().join("plain"), "").expect("written");
    // What a pipe holds is found out in the run.
    let made = Command::new("mkfifo").arg(directory.path().join("pipe")).status();
    assert!(made.expect("a program").success());
    let source = |id, path| {
        format!(
            "[[source]]\nid = {id}\ninput = {{ kind = \"replay\", format = \"evb\", path = \"{here}/{path}\" }}\n"
        )
    };
    let text = format!(
        "[run]\nevents = 1\n[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = \"{here}/none/journal\"\n\
         trigger = {{ kind = \"as-fast-as-possible\" }}\n{}{}{}\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"file\", path = \"{here}/plain/out\" }}\n\
         [security]\nmode = \"psk\"\nkey_file = \"{here}/key\"\n",
        source(1, "pipe"),
        source(2, "pipe"),
        source(3, "absent"),
    );
    let (code, said) = run(&text);
    assert_eq!(code, Some(2), "{said}");
    for (line, key, path) in [
        (5, "supervisor.journal", "none/journal"),
        (15, "source.input.path", "absent"),
        (19, "builder.sink.path", "plain/out"),
        (22, "security.key_file", "key"),
    ] {
        let told = said.split("\n\n").find(|told| told.contains(&format!("= key: {key}\n")));
        let told = told.unwrap_or_else(|| panic!("nothing of {key}: {said}"));
        assert!(told.contains(&format!(":{line}:")), "line {line}: {told}");
        assert!(told.contains(&format!("{here}/{path}")) && told.contains("= help: "), "{told}");
    }
    assert!(said.contains("4 error(s), 0 warning(s); evb does not start"), "{said}");
}

/// Whatever a run refuses on this host, `check --here` finds before; without `--here`, the check
/// says nothing of this host.
#[test]
fn the_check_of_this_host_finds_what_a_run_refuses() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path().display();
    std::fs::write(directory.path().join("plain"), "").expect("written");
    std::fs::write(directory.path().join("foreign"), "#!/bin/sh\necho it has no events\n").expect("written");
    let builder = "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    let sound = system(builder, "");
    let input = |input: &str| sound.replace("kind = \"generator\", size = \"1 kB\"", input);
    let replay = |format: &str, path: &str| {
        let kind = "kind = \"replay\", format = ";
        ("source.input.path", input(&format!("{kind}\"{format}\", path = \"{here}/{path}\"")))
    };
    let supervisor = |more: &str| sound.replace("[supervisor]\n", &format!("[supervisor]\n{more}\n"));
    let numbered =
        supervisor(&format!("state = \"{here}/state\"")).replace("events = 10", "events = 10\nnumber = 7");
    assert_eq!(run_alone(&numbered).0, Some(0), "the run takes its number");
    let control = "[control]\nlisten = \"127.0.0.1:7999\"\n";
    let cases = [
        ("security.key_file", format!("{sound}[security]\nmode = \"psk\"\nkey_file = \"{here}/key\"\n")),
        ("control.token_file", format!("{sound}{control}token_file = \"{here}/token\"\n")),
        ("control.token_file", format!("{sound}{control}token_file = \"{here}/plain\"\n")),
        ("supervisor.journal", supervisor(&format!("journal = \"{here}/none/journal\""))),
        ("supervisor.state", supervisor(&format!("state = \"{here}/plain\""))),
        ("run.number", numbered),
        replay("evb", "absent"),
        replay("evb", "plain"),
        replay("evb", "foreign"),
        replay("evb", "."),
        replay("km3net", "plain"),
        replay("km3net", "foreign"),
        ("source.input.path", input(&format!("kind = \"unix\", path = \"{here}/none/socket\""))),
        ("source.input.path", input(&format!("kind = \"unix\", path = \"{here}/plain\""))),
        (
            "builder.sink.path",
            sound.replace("\"null\"", &format!("{{ kind = \"file\", path = \"{here}/plain/out\" }}")),
        ),
    ];
    for (key, text) in cases {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        let (code, said) = run_file(file.path());
        assert_eq!(code, Some(2), "{key}: {said}");
        assert!(said.contains(key), "{key}: {said}");
        let (code, found) = evbd(&["check", "--here"], file.path());
        assert_eq!(code, Some(2), "{key}: {found}");
        assert!(found.contains(&format!("= key: {key}\n")) && found.contains("= help: "), "{key}: {found}");
        assert_eq!(evbd(&["check"], file.path()).0, Some(0), "{key}: the check is not of this host");
    }
}

#[test]
fn what_is_advised_for_a_number_that_was_taken_helps() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = format!("[supervisor]\nstate = \"{}\"\n", directory.path().display());
    let builder = "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    let numbered = |extra: &str| run_alone(&system(builder, extra).replace("[supervisor]\n", &state));
    let again = |number: &str| {
        assert_eq!(numbered(number).0, Some(0), "{number} is free");
        let (code, said) = numbered(number);
        assert_eq!(code, Some(2), "{number}: {said}");
        said
    };
    let said = again("number = 7");
    assert!(said.contains("choose another `run.number`, or leave it out"), "{said}");
    let said = again("number = 4294967295");
    assert!(said.contains("choose another `run.number`") && !said.contains("leave it out"), "{said}");
    let (code, said) = numbered("");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("set `run.number` to a free number"), "{said}");
}

#[test]
fn a_bad_configuration_names_key_line_and_remedy() {
    let builder = "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    let sound = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(sound.path(), system(builder, "")).expect("written");
    assert_eq!(
        evbd(&["check"], sound.path()),
        (Some(0), String::new()),
        "nothing is wrong but what is put in"
    );
    // A configuration with a mistake, and the position and the words that the message must have.
    let cases = [
        (system(builder, "evnts = 5"), ":3:1", "did you mean `events`?"),
        (system(builder, "seed = \"one\""), ":3:", "seed"),
        (system(builder, "duration = 10"), ":3:", "duration"),
        (system(&builder.replace("127.0.0.1", "10.0.0.1"), ""), ":12:", "loopback"),
        (system(&format!("{builder}{builder}"), ""), ":15:", "id"),
        ("[run\n".to_owned(), ":1:", "]"),
        (String::new(), "", "supervisor"),
    ];
    for (text, line, words) in cases {
        let (code, said) = run(&text);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(line) && said.contains(words), "`{line}` and `{words}`: {said}");
    }
    let (code, said) = run_file(Path::new("/nowhere/at.all"));
    assert!(code == Some(2) && said.contains("/nowhere/at.all"), "{said}");
}

#[test]
fn more_builders_than_a_source_can_have_lanes_are_refused() {
    let builders = |count: u16| {
        let entry =
            |id| format!("[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{}\"\nsink = \"null\"\n", 20_000 + id);
        (1..=count).map(entry).collect::<String>()
    };
    let (code, said) = run(&system(&builders(1025), ""));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("more than 1024 builders") && said.contains(":4107:6"), "{said}");
    let sources = system(&builders(1), "").replace("id = 1\ninput", "ids = \"1-5000\"\ninput");
    let (code, said) = run(&sources);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("more than 4096 sources") && said.contains("ids = \"1-5000\""), "{said}");
}

/// The process gets a hard limit of 64 descriptors: eight sources and four builders need more.
#[test]
fn too_few_descriptors_are_refused_with_their_sum() {
    let builders: String = (1..=4)
        .map(|id| {
            format!("[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{}\"\nsink = \"null\"\n", 20_000 + id)
        })
        .collect();
    let text = system(&builders, "").replace("id = 1\ninput", "ids = \"1-8\"\ninput");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &text).expect("written");
    // `run` starts all roles in one process. `check` also accepts a limit that suffices if each
    // role has a process of its own.
    for (command, limit, code) in [("check", 64, 2), ("check", 200, 0), ("run", 64, 2), ("run", 200, 2)] {
        // The shell sets both limits.
        let limited = Command::new("sh")
            .args(["-c", &format!("ulimit -n {limit} && exec \"$@\""), "sh"])
            .args([env!("CARGO_BIN_EXE_evbd"), command])
            .arg(file.path())
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&limited.stderr);
        assert_eq!(limited.status.code(), Some(code), "{command}: {said}");
        for part in [
            "the roles that run here need 268 file descriptors (64 for event data",
            &format!("may open {limit}"),
            "LimitNOFILE",
            "= key: builder",
            ":10:",
        ] {
            assert!(said.contains(part), "{command}: {part:?} is not in\n{said}");
        }
    }
}

#[test]
fn who_does_not_come_is_named() {
    let plan = Plan {
        supervisor: "start_timeout = \"1 s\"\ntrigger = { kind = \"as-fast-as-possible\" }",
        ..Plan::default()
    };
    let began = Instant::now();
    let mut fleet = plan.start_but(&["source:2", "builder:1"]);
    fleet.all_end(1, LIMIT);
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}: nobody waits for reports on nothing",
        began.elapsed()
    );
    let said = problems(&fleet.summary("supervisor"));
    assert!(said.contains("had not registered with the supervisor: source 2, builder 1"), "{said}");
    // If the supervisor is missing, the roles that wait for it report its address.
    let mut fleet = plan.start_but(&["supervisor"]);
    fleet.all_end(1, LIMIT);
    assert!(fleet.log("source:1").contains("cannot be reached"), "{}", fleet.log("source:1"));
}

/// Every role is a process of its own, as on hosts of their own. What prevents one of them from
/// taking part is stated where the operator looks, at the supervisor.
#[test]
fn the_supervisor_says_what_kept_a_peer_away() {
    let plan = Plan {
        sources: 1,
        builders: 1,
        supervisor: "start_timeout = \"3 s\"\ntrigger = { kind = \"as-fast-as-possible\" }",
        ..Plan::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = listener.local_addr().expect("an address");
    let replace_input = |text: &str, input: &str| {
        let generator = "kind = \"generator\", size = \"2 kB\"";
        assert!(text.contains(generator), "{text}");
        text.replace(generator, input)
    };
    /// A fault in the configuration of one role.
    struct Case<'a> {
        role: &'static str,
        /// Puts the fault into the text of the configuration.
        spoil: &'a dyn Fn(&str) -> String,
        code: i32,
        reason: &'static str,
    }
    let cases = [
        Case {
            role: "builder:1",
            spoil: &|text| {
                let (before, builder) =
                    text.split_once("[[builder]]\nid = 1\nlisten = \"").expect("a builder");
                let (address, _) = builder.split_once('"').expect("an address");
                assert!(!before.contains(address), "{text}");
                text.replace(address, &taken.to_string())
            },
            code: 1,
            reason: "cannot listen on 127.0.0.1:",
        },
        Case {
            role: "builder:1",
            spoil: &|text| {
                assert!(text.contains("\"null\""), "{text}");
                text.replace("\"null\"", "{ kind = \"file\", path = \"evb.toml\" }")
            },
            code: 2,
            reason: "cannot write event files to evb.toml",
        },
        Case {
            role: "source:1",
            spoil: &|text| replace_input(text, "kind = \"replay\", format = \"evb\", path = \"absent\""),
            code: 2,
            reason: "cannot read absent",
        },
        Case {
            role: "source:1",
            spoil: &|text| replace_input(text, &format!("kind = \"tcp\", listen = \"{taken}\"")),
            code: 1,
            reason: "cannot listen for front ends at 127.0.0.1:",
        },
    ];
    for Case { role, spoil, code, reason } in cases {
        let mut fleet = plan.start_but(&["supervisor", "source:1", "builder:1"]);
        let file = fleet.dir().join("evb.toml");
        let text = std::fs::read_to_string(&file).expect("a file");
        std::fs::write(&file, spoil(&text)).expect("written");
        plan.roles_but(&[]).iter().for_each(|role| fleet.launch(role));
        assert_eq!(fleet.wait(role, LIMIT), Some(code), "{role}: {}", fleet.log(role));
        assert!(fleet.log(role).contains(reason), "{role}: {}", fleet.log(role));
        assert_eq!(fleet.wait("supervisor", LIMIT), Some(1), "{}", fleet.log("supervisor"));
        let said = problems(&fleet.summary("supervisor"));
        let wanted = format!("had not registered with the supervisor: {} ({reason}", role.replace(':', " "));
        assert!(said.contains(&wanted), "{wanted}: {said}");
        let log = fleet.log("supervisor");
        assert!(log.contains("cannot take part") && log.contains(reason), "{reason}: {log}");
    }
}

#[test]
fn files_of_the_run_are_not_overwritten() {
    let plan = Plan { run: "events = 50\nnumber = 1", files: true, ..Plan::default() };
    let mut fleet = plan.start();
    fleet.all_end(0, LIMIT);
    let before: Vec<_> = files(&fleet.out());
    assert_eq!(before.len(), 2);
    // Only the supervisor knows if the files are of its run, so the builders refuse when it begins.
    plan.roles_but(&[]).iter().for_each(|role| fleet.launch_again(role));
    assert_eq!(fleet.wait("supervisor", LIMIT), Some(1), "{}", fleet.log("supervisor"));
    let said = problems(&fleet.summary("supervisor"));
    assert!(said.contains("builder 1") || said.contains("builder 2"), "{said}");
    assert!(said.contains("run 1 was written here before") && said.contains("another run number"), "{said}");
    assert_eq!(files(&fleet.out()), before);
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("a file")))
        .collect();
    files.sort();
    files
}
