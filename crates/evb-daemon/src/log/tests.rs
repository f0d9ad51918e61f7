use super::filter;

#[test]
fn levels_and_targets_select_messages() {
    for text in ["info", "INFO", "warn,evb=debug", "evb_net=trace", "off", "evbd", "", "evb[round]=debug"] {
        assert!(filter(text).is_ok(), "{text}: {:?}", filter(text).err());
    }
}

#[test]
fn a_text_that_selects_nothing_is_named() {
    for (text, words) in [
        ("infoo", "`infoo` is no level; the levels are off, error, warn, info, debug, trace"),
        ("warn,verbose", "`verbose` is no level"),
        ("foo=bar=baz", "TARGET=LEVEL"),
        ("evb=loud", "TARGET=LEVEL"),
        ("inf\u{1b}o", "`inf\\u{1b}o` is no level"),
    ] {
        let fault = filter(text).err().unwrap_or_else(|| panic!("`{text}` is taken"));
        assert!(fault.contains(words), "{text}: {fault}");
    }
}
