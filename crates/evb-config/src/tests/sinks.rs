//! Sinks of builders, alone and in lists.

use std::{path::Path, time::Duration};

use super::{bad, good};
use crate::{ConsumerAddress, SinkEntry};

fn config(sink: &str) -> String {
    format!("[[builder]]\nids = \"3\"\nlisten = \"127.0.0.1:7101\"\nsink = {sink}\n")
}

fn sinks(sink: &str) -> Vec<SinkEntry> {
    good(&config(sink)).builders[0].sinks.clone()
}

/// Returns key, marked text, reason and remedy of each problem.
fn problems(sink: &str) -> Vec<(String, String, String)> {
    let text = config(sink);
    let problems = bad(&text);
    let told = problems.iter().map(|problem| {
        let words = format!("{}; {}", problem.reason, problem.remedy);
        (problem.key.clone(), text[problem.span.clone()].to_owned(), words)
    });
    told.collect()
}

#[test]
fn a_builder_has_one_sink_or_several() {
    assert_eq!(sinks("\"null\""), [SinkEntry::Null]);
    let several = sinks(
        "[{ kind = \"file\", path = \"out/b{id}\" }, \"null\",\n{ kind = \"socket\", address = \"/run/c{id}\", \
         required = false, timeout = \"3 s\" }, { kind = \"socket\", address = \"[::1]:{7400+id}\" }]",
    );
    assert_eq!(several[0].directory(), Some(Path::new("out/b3")));
    assert_eq!(several.iter().map(SinkEntry::is_required).collect::<Vec<_>>(), [true, true, false, true]);
    let SinkEntry::Socket { address, timeout, .. } = &several[2] else { panic!("{several:?}") };
    let path = ConsumerAddress::Unix("/run/c3".into());
    assert_eq!((address, timeout.as_secs()), (&path, 3));
    let SinkEntry::Socket { address: ConsumerAddress::Tcp(address), timeout, .. } = &several[3] else {
        panic!("{several:?}")
    };
    assert_eq!((address.to_string().as_str(), *timeout), ("[::1]:7403", Duration::from_secs(10)));
}

#[test]
fn each_problem_of_a_list_is_at_its_place() {
    let found = problems(
        "[{ kind = \"fil\", path = \"out\" }, 7, { kind = \"socket\", address = \"nowhere\", port = 1 },\n\
         { kind = \"file\", path = \"out\", rotate = \"1 B\" }, { kind = \"socket\", address = \"10.0.0.5:7401\" }]",
    );
    let expected = [
        ("builder.sink.kind", "\"fil\"", "`kind` cannot be `fil`; did you mean `file`?"),
        ("builder.sink", "7", "`sink` is a whole number, not a table; "),
        (
            "builder.sink.address",
            "\"nowhere\"",
            "`nowhere` is not an address: it has no port; write \"host:port\"",
        ),
        ("builder.sink.port", "port", "unknown key `port`; "),
        ("builder.sink.rotate", "\"1 B\"", "event files would end after only 1 B; "),
        (
            "builder.sink.address",
            "\"10.0.0.5:7401\"",
            "`10.0.0.5` is not a loopback address, but there is no",
        ),
    ];
    for (found, (key, place, words)) in found.iter().zip(expected) {
        assert_eq!((found.0.as_str(), found.1.as_str()), (key, place));
        assert!(found.2.starts_with(words), "{}", found.2);
    }
    assert_eq!(found.len(), expected.len(), "{found:?}");
}

#[test]
fn a_list_needs_a_required_sink_and_directories_of_its_own() {
    let aside = "{ kind = \"file\", path = \"out\", required = false }";
    let alone = format!("[{aside}]");
    let none = "the builder has no required sink";
    for (sink, words) in [("[]", "the list of sinks is empty"), (aside, none), (&alone, none)] {
        let found = problems(sink);
        assert!(found.len() == 1 && found[0].2.starts_with(words), "{found:?}");
        assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("builder.sink", sink));
    }
    let found = problems(&format!("[{{ kind = \"file\", path = \"out\" }}, {aside}]"));
    assert!(found[0].2.starts_with("two sinks of this builder would write into the same"), "{found:?}");
}
