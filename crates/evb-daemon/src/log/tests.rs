use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use super::filter;

/// A log in memory.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// Returns the lines without their times.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("UTF-8");
        text.lines().filter_map(|line| Some(line.split_once(' ')?.1.trim_start().to_owned())).collect()
    }
}

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
