use std::process::Command;

use super::{
    executable,
    job::{not_judged, quoted},
};

#[test]
fn the_executable_is_that_of_the_named_test() {
    let messages = r#"{"reason":"compiler-artifact","target":{"name":"evb-net"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other-1"}
{"reason":"compiler-artifact","target":{"name":"kernel"},"executable":"/t/kernel-2"}
{"reason":"build-finished","success":true}"#;
    assert_eq!(executable(messages, "kernel"), Some("/t/kernel-2".into()));
    assert_eq!(executable(messages, "evb-net"), None);
}

#[test]
fn the_shell_reads_a_quoted_word_as_it_is() {
    for word in ["plain", "", "two words", "it's", r#"$HOME `x` "y" \ '' ;|&"#] {
        let script = format!("printf %s {}", quoted(word));
        let said = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
    }
}

#[test]
fn what_could_not_be_judged_is_found_wherever_in_a_line() {
    assert!(!not_judged("test a ... ok\njudged\n"));
    assert!(not_judged("test a ... ok\ntest b ... NOT JUDGED b: too slow\nok\n"));
}
