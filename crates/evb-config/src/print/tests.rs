use super::*;

fn shown(text: &str) -> String {
    let mut plain = Plain(Vec::new());
    plain.write_all(text.as_bytes()).unwrap();
    String::from_utf8(plain.0).unwrap()
}

#[test]
fn no_control_character_reaches_the_terminal() {
    assert_eq!(shown("\u{1b}]0;owned\u{7}\u{1b}[2Jrun 1: clean"), "\\x1b]0;owned\\x07\\x1b[2Jrun 1: clean");
    assert_eq!(shown("a\rb\u{7f}c\u{9b}2Jd\0"), "a\\x0db\\x7fc\\x9b2Jd\\x00");
    for code in 0..=0x24f {
        let character = char::from_u32(code).unwrap();
        let is_shown = !character.is_control() || character == '\n' || character == '\t';
        assert_eq!(shown(&character.to_string()) == character.to_string(), is_shown, "{code:x}");
    }
}

#[test]
fn everything_else_stays() {
    let text = "Größe: 3 µs\tund mehr …\nzweite Zeile 日本 â\n";
    assert_eq!(shown(text), text);
}
