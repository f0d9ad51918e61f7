//! What is done when a run starts, and after its end: what is read, and what is said about wrong
//! declarations.

use std::time::Duration;

use super::{good, refused};
use crate::{Action, Hook, check};

const FRAME: &str = "frame = { header = 0, delimiter = \"0a\" }";

fn source(input: &str) -> String {
    format!("[[source]]\nid = 1\ninput = {{ {input} }}\n")
}

fn board(keys: &str) -> String {
    source(&format!("kind = \"tcp\", connect = \"127.0.0.1:24\", {FRAME}, {keys}"))
}

#[test]
fn programs_and_bytes_are_read() {
    let config = good(&board(
        "on_start = { run = [\"/opt/daq/arm\", \"--crate\", \"1\"], timeout = \"30 s\" }, on_stop = { send = \"FF 00 a5\" }",
    ));
    let hooks = &config.sources[0].hooks;
    let words = ["/opt/daq/arm", "--crate", "1"].map(str::to_owned).to_vec();
    let (start, stop) = (Action::Run(words), Action::Send(vec![0xff, 0x00, 0xa5]));
    assert_eq!(hooks.on_start, Some(Hook { action: start, timeout: Duration::from_secs(30) }));
    assert_eq!(hooks.on_stop, Some(Hook { action: stop, timeout: Duration::from_secs(10) }));
    let device =
        source(&format!("kind = \"stream\", path = \"/dev/adc\", {FRAME}, on_start = {{ send = \"01\" }}"));
    assert!(good(&device).sources[0].hooks.on_start.is_some());
    for listening in ["kind = \"unix\", path = \"a\"", "kind = \"tcp\", listen = \"127.0.0.1:1\""] {
        let hooks = &good(&source(&format!("{listening}, on_stop = {{ run = [\"arm\"] }}"))).sources[0].hooks;
        assert!(hooks.on_start.is_none() && hooks.on_stop.is_some());
    }
}

#[test]
fn the_page_lists_what_is_done() {
    let text = "[[source]]\nids = \"1-3\"\ninput = { kind = \"tcp\", listen = \"127.0.0.1:720{id}\", on_start = { run = [\"arm\", \"all\"] } }\n\
                [[source]]\nids = \"4\"\ninput = { kind = \"unix\", path = \"a\", on_stop = { run = [\"arm\", \"-{id}\"], timeout = \"500 ms\" } }\n";
    let page = check::hooks(&good(text));
    let listed = "
Start and end of a run
  on_start of sources 1-3: run arm all, within 10.0 s
  on_stop  of source 4: run arm -4, within 500 ms
";
    assert_eq!(page, listed);
}

#[test]
fn the_programs_of_hooks_are_read_and_listed() {
    let config =
        good("[hooks]\nrun_starts = [\"beam\", \"on?\"]\nfile_closed = [\"/opt/up\"]\ntimeout = \"5 s\"\n");
    let hooks = &config.hooks;
    assert_eq!(hooks.run_starts.as_deref(), Some(&["beam", "on?"].map(str::to_owned)[..]));
    assert_eq!((hooks.programs().count(), hooks.timeout), (2, Duration::from_secs(5)));
    let listed = "\nStart and end of a run\n  run_starts: run beam on?, within 5.00 s\n  file_closed: run /opt/up, within 5.00 s\n";
    assert_eq!(check::hooks(&config), listed);
    let none = good("").hooks;
    assert_eq!((none.programs().count(), none.timeout), (0, Duration::from_secs(30)));
    for (text, key, reason, remedy) in [
        ("problem = []", "problem", "the list `problem` is empty", "problem = [\"/opt/daq/problem\"]"),
        ("run_ends = [\"bin/end\"]", "run_ends", "`bin/end` is depends on", "begins with `/`"),
        ("run_end = [\"end\"]", "run_end", "unknown key `run_end`", "did you mean `run_ends`"),
        ("run_ends = \"end\"", "run_ends", "is text, not a list", "run_ends = "),
        ("timeout = \"0 s\"", "timeout", "is zero", "above zero"),
    ] {
        refused(&format!("[hooks]\n{text}\n"), &format!("hooks.{key}"), 2, reason, remedy);
    }
}

/// Wrong declarations, each with the key, and words of the reason and of the remedy.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("on_start = {}", "on_start", "neither `run` nor `send`", "add run = [\"/opt/daq/arm\""),
    ("on_start = { run = [] }", "on_start.run", "list `run` is empty", "run = [\"/opt/daq/arm\""),
    ("on_start = { run = [\"\"] }", "on_start.run", "the program, is empty", "run = [\"/opt/daq/arm\""),
    ("on_start = { run = [\"bin/arm\"] }", "on_start.run", "`bin/arm` is depends on", "begins with `/`"),
    (
        "on_start = { run = [\"arm\", \"a\\u0000\"] }",
        "on_start.run",
        "NUL character",
        "program and its arguments",
    ),
    ("on_start = { run = \"arm\" }", "on_start.run", "is text, not a list", "run = [\"/opt/daq/arm\""),
    ("on_start = { run = [1] }", "on_start.run", "not a list of texts", "run = "),
    (
        "on_stop = { run = [\"a\"], send = \"00\" }",
        "on_stop.send",
        "are both given",
        "remove `send`, or `run`",
    ),
    ("on_stop = { send = \"0\" }", "on_stop.send", "not bytes in hexadecimal", "two hexadecimal digits"),
    ("on_stop = { send = \"\" }", "on_stop.send", "not bytes in hexadecimal", "two hexadecimal digits"),
    ("on_start = { send = \"00\", timeout = \"0 s\" }", "on_start.timeout", "is zero", "above zero"),
    ("on_start = { send = \"00\", timeout = 5 }", "on_start.timeout", "bare number", "timeout = \"2 s\""),
    (
        "on_start = { shell = \"arm\" }",
        "on_start.shell",
        "unknown key `shell`",
        "keys here: run, send, timeout",
    ),
    ("on_start = \"arm\"", "on_start", "is text, not a table", "on_start = { … }"),
];

#[test]
fn a_wrong_declaration_is_refused_with_what_to_do() {
    let no_connection = "kind = \"tcp\", listen = \"127.0.0.1:1\", on_start = { send = \"00\" }";
    let generator = "kind = \"generator\", size = \"1 B\", on_start = { run = [\"a\"] }";
    let others = [
        (source(no_connection), "on_start.send", "opens no connection to a board", "in place of `send`"),
        (source(generator), "on_start", "unknown key `on_start`", "keys here"),
    ];
    let of_board = WRONG.iter().map(|(keys, key, reason, remedy)| (board(keys), *key, *reason, *remedy));
    for (text, key, reason, remedy) in of_board.chain(others) {
        refused(&text, &format!("source.input.{key}"), 3, reason, remedy);
    }
}
