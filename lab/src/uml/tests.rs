use std::process::Command;

use super::job::{not_judged, quoted};

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
