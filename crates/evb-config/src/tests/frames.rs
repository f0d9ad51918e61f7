//! Declared layouts of frames: what they mean, and what is said about wrong ones.

use evb_core::{
    alignment::{CounterStart, TriggerCounter},
    framing::{ByteOrder, Extent, FrameField, Kept, LengthCounts, Mark},
};

use super::{good, refused};
use crate::{BoardPlace, Input};

fn board(frame: &str, keys: &str) -> String {
    format!(
        "[[source]]\nid = 1\ninput = {{ kind = \"tcp\", connect = \"127.0.0.1:24\", frame = {{ {frame} }} }}\n{keys}\n"
    )
}

#[test]
fn a_layout_is_read_with_all_its_keys() {
    let config = good(&board(
        "magic = { at = 1, value = \"EB 90\", mask = \"fff0\" }, order = \"little\", header = 20, trailer = 4, \
         end = \"55aa\", align = 8, keep = \"payload\", resync = \"64 KiB\", \
         length = { at = 4, bytes = 4, bits = \"0-23\", order = \"big\", counts = \"rest\", unit = 4 }, \
         counter = { at = 8, bits = \"15-0\", mask = 0xfff }, clock = { at = 12, bytes = 6 }",
        "counter = { bits = 12, first = 0 }\nclock = { rate = \"125 MHz\", bits = 48 }",
    ));
    let Input::Board { place: BoardPlace::Tcp(address), frame, .. } = &config.sources[0].input else {
        panic!("a board")
    };
    assert_eq!(address.to_string(), "127.0.0.1:24");
    assert_eq!(frame.magic, Some(Mark { mask: vec![0xff, 0xf0], ..Mark::new(1, [0xeb, 0x90]) }));
    let length = FrameField { high: 23, ..FrameField::new(4, 4) };
    assert_eq!(frame.extent, Extent::Stated { length, unit: 4, counted: LengthCounts::Rest });
    let counter = FrameField { order: ByteOrder::Little, mask: 0xfff, ..FrameField::new(8, 2) };
    assert_eq!(frame.counter, Some(counter));
    assert_eq!((frame.header, frame.trailer, frame.align, frame.keep), (20, 4, 8, Kept::Payload));
    assert_eq!((frame.end.as_slice(), frame.resync.count()), (&[0x55, 0xaa][..], 64 << 10));
    assert_eq!(config.sources[0].counter.map(|counter| counter.bits), Some(12));
}

#[test]
fn frames_without_a_counter_count_as_they_arrive() {
    let config = good(&board("header = 0, delimiter = \"0a\"", ""));
    let counter = TriggerCounter { first: CounterStart::Any, ..TriggerCounter::new(64) };
    assert_eq!(config.sources[0].counter, Some(counter));
    let whole = "header = 8, payload = \"100 B\", counter = { at = 0, bytes = 8 }";
    let config = good(&board(whole, ""));
    assert_eq!(config.sources[0].counter, None, "64 bits are an event id");
    assert_eq!(config.sources[0].max_fragment.count(), 108);
    let listening = "[[source]]\nid = 1\ninput = { kind = \"unix\", path = \"a\", frame = { header = 0, delimiter = \"0a\" } }\n";
    assert!(good(listening).sources[0].input.frame().is_some());
    let device = "[[source]]\nid = 1\ninput = { kind = \"stream\", path = \"/dev/ttyUSB0\", frame = { header = 0, delimiter = \"0a\" } }\n";
    assert!(matches!(good(device).sources[0].input, Input::Board { place: BoardPlace::Path(_), .. }));
}

/// Wrong layouts, each with the key, and words of the reason and of the remedy.
const LAYOUTS: &[(&str, &str, &str, &str)] = &[
    ("delimiter = \"0a\"", ".header", "`source.input.frame` has no `header`", "header = 12"),
    ("header = 5000, payload = \"1 B\"", ".header", "not a possible value", "from 0 to 4096"),
    ("header = true, payload = \"1 B\"", ".header", "is true or false, not a whole number", "from 0 to 4096"),
    ("header = 4", "", "nothing tells where a frame ends", "add length = {"),
    (
        "header = 4, payload = \"1 B\", delimiter = \"0a\"",
        ".delimiter",
        "`payload` tells already",
        "remove `delimiter`, or `payload`",
    ),
    (
        "header = 4, length = { at = 0, bytes = 2, counts = \"payload\" }, payload = \"1 B\"",
        ".payload",
        "`length` tells already",
        "remove `payload`, or `length`",
    ),
    ("header = 4, payload = 16", ".payload", "bare number", "payload = \"64 KiB\""),
    ("header = 4, payload = \"5 GB\"", ".payload", "more than a fragment can have", "one frame's payload"),
    ("header = 0, payload = \"0 B\"", ".header", "has no bytes", "give a header"),
    (
        "header = 4, payload = \"1 B\", magic = \"eb9\"",
        ".magic",
        "`eb9` is not bytes in hexadecimal",
        "two hexadecimal digits",
    ),
    ("header = 4, payload = \"1 B\", magic = \"hello!\"", ".magic", "not bytes in hexadecimal", "\"eb90\""),
    ("header = 4, payload = \"1 B\", magic = \"\"", ".magic", "not bytes in hexadecimal", "\"eb90\""),
    (
        "header = 4, payload = \"1 B\", magic = 0xeb90",
        ".magic",
        "is a whole number, not text",
        "magic = \"eb90\"",
    ),
    (
        "header = 4, payload = \"1 B\", magic = \"0102030405\"",
        ".magic",
        "ends 5 bytes after the start of the frame",
        "header = 5 or more",
    ),
    (
        "header = 40, payload = \"1 B\", magic = \"0102030405060708090a0b0c0d0e0f1011\"",
        ".magic",
        "1 to 16 bytes",
        "at most 16 bytes",
    ),
    ("header = 4, payload = \"1 B\", magic = { value = \"eb90\" }", ".magic.at", "has no `at`", "at = 0"),
    (
        "header = 4, payload = \"1 B\", magic = { at = 0 }",
        ".magic.value",
        "has no `value`",
        "value = \"eb90\"",
    ),
    (
        "header = 4, payload = \"1 B\", magic = { at = 0, value = \"eb90\", mask = \"ff\" }",
        ".magic",
        "its mask as many",
        "a mask of as many",
    ),
    (
        "header = 4, payload = \"1 B\", magic = { at = 0, value = \"eb90\", mask = \"0000\" }",
        ".magic",
        "not all of them 0",
        "a mask of as many",
    ),
    (
        "header = 4, payload = \"1 B\", magic = { at = 0, value = \"eb90\", bytes = 2 }",
        ".magic.bytes",
        "unknown key `bytes`",
        "keys here: at, value, mask",
    ),
    ("header = 4, payload = \"1 B\", order = \"middle\"", ".order", "`middle`", "one of \"big\", \"little\""),
    ("header = 4, length = { bytes = 2, counts = \"payload\" }", ".length.at", "has no `at`", "at = 2"),
    (
        "header = 4, length = { at = 0, bytes = 2 }",
        ".length.counts",
        "has no `counts`",
        "counts = \"payload\"",
    ),
    (
        "header = 4, length = { at = 0, bytes = 2, counts = \"words\" }",
        ".length.counts",
        "`words`",
        "one of \"payload\", \"frame\", \"rest\"",
    ),
    (
        "header = 4, length = { at = 0, counts = \"payload\" }",
        ".length.bytes",
        "how wide this field is",
        "bytes = 2",
    ),
    (
        "header = 4, length = { at = 0, bytes = 9, counts = \"payload\" }",
        ".length.bytes",
        "not a possible value",
        "from 1 to 8",
    ),
    (
        "header = 4, length = { at = 3, bytes = 2, counts = \"payload\" }",
        ".length",
        "ends 5 bytes after the start",
        "offsets count from 0",
    ),
    (
        "header = 4, length = { at = 0, bytes = 2, counts = \"payload\", unit = 0 }",
        ".length.unit",
        "not a possible value",
        "from 1 to 4096",
    ),
    ("header = 4, length = 2", ".length", "is a whole number, not a table", "length = {"),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bytes = 2, bits = \"0-16\" }",
        ".clock.bits",
        "no bit 16",
        "give bits up to 15",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bits = \"0-64\" }",
        ".clock.bits",
        "`0-64` is not a range",
        "as \"0-23\"",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bits = \"low\" }",
        ".clock.bits",
        "`low` is not a range",
        "as \"0-23\"",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bits = 24 }",
        ".clock.bits",
        "`bits` is a whole number, not text",
        "\"0-23\"",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bytes = 2, mask = 0 }",
        ".clock.mask",
        "not a possible value",
        "from 1 to",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bytes = 2, mask = 0x10000 }",
        ".clock",
        "has no bits",
        "that keeps at least one of these bits",
    ),
    (
        "header = 8, payload = \"1 B\", clock = { at = 0, bytes = 2, orders = \"big\" }",
        ".clock.orders",
        "unknown key `orders`",
        "did you mean `order`?",
    ),
    (
        "header = 8, magic = \"eb90\", payload = \"1 B\", clock = { at = 1, bytes = 4 }",
        ".clock",
        "`clock` and `magic` overlap in byte 1",
        "correct `at`",
    ),
    (
        "header = 8, payload = \"1 B\", counter = { at = 0, bits = \"0-3\" }",
        ".counter",
        "4 bits are too few",
        "8 to 64 bits",
    ),
    (
        "header = 8, payload = \"1 B\", counter = { at = 0, bytes = 2 }",
        ".counter",
        "how the 16 bits of the frame's counter count",
        "counter = { bits = 16, first = 0 }",
    ),
    (
        "header = 4, payload = \"1 B\", end = \"0d0a\", trailer = 1",
        ".end",
        "`end` has 2 bytes, but the trailer has 1",
        "trailer = 2",
    ),
    (
        "header = 4, delimiter = \"0a\", trailer = 1",
        ".trailer",
        "is not possible in a frame that ends with a delimiter",
        "remove `trailer`",
    ),
    (
        "header = 4, delimiter = \"0a\", align = 4",
        ".align",
        "is not possible in a frame that ends with a delimiter",
        "remove `align`",
    ),
    (
        "header = 4, delimiter = \"0a\", end = \"0a\"",
        ".end",
        "the delimiter ends a frame already",
        "remove `end`",
    ),
    ("header = 4, delimiter = \"zz\"", ".delimiter", "not bytes in hexadecimal", "\"eb90\""),
    ("header = 4, payload = \"1 B\", align = 0", ".align", "not a possible value", "from 1 to 4096"),
    (
        "header = 4, payload = \"1 B\", keep = \"header\"",
        ".keep",
        "`header`",
        "one of \"frame\", \"payload\"",
    ),
    (
        "header = 4, payload = \"1 B\", resync = \"1 kB\"",
        ".resync",
        "where the next frame begins",
        "add magic",
    ),
    (
        "header = 4, payload = \"1 B\", magic = \"eb90\", resync = \"0 B\"",
        ".resync",
        "`resync` is zero",
        "above zero",
    ),
    ("header = 4, payload = \"1 B\", heder = 4", ".heder", "unknown key `heder`", "did you mean `header`?"),
];

#[test]
fn wrong_layouts_are_refused_with_key_line_reason_and_remedy() {
    assert!(LAYOUTS.len() >= 40);
    for (frame, key, reason, remedy) in LAYOUTS {
        let key = format!("source.input.frame{key}");
        let problems = refused(&board(frame, ""), &key, 3, reason, remedy);
        assert_eq!(problems.iter().count(), 1, "{frame}:\n{problems}");
    }
}

/// Wrong sources around a layout: the text, key, line, reason and remedy.
const SOURCES: &[(&str, &str, usize, &str, &str)] = &[
    ("{ kind = \"tcp\" }", "input.listen", 3, "has no `listen`", "listen = \"127.0.0.1:7201\""),
    ("{ kind = \"tcp\", connect = \"127.0.0.1:24\" }", "input.frame", 3, "has no `frame`", "frame = { magic"),
    ("{ kind = \"stream\", path = \"/dev/x\" }", "input.frame", 3, "has no `frame`", "frame = { magic"),
    (
        "{ kind = \"stream\", frame = { header = 1, payload = \"1 B\" } }",
        "input.path",
        3,
        "has no `path`",
        "add path =",
    ),
    (
        "{ kind = \"tcp\", connect = \"127.0.0.1\", frame = { header = 1, payload = \"1 B\" } }",
        "input.connect",
        3,
        "not an address",
        "host:port",
    ),
    (
        "{ kind = \"tcp\", connect = \"127.0.0.1:0\", frame = { header = 1, payload = \"1 B\" } }",
        "input.connect",
        3,
        "port 0",
        "write a port",
    ),
    (
        "{ kind = \"tcp\", connect = \"192.168.10.16:24\", frame = { header = 1, payload = \"1 B\" } }",
        "input.connect",
        3,
        "not a loopback address",
        "[security]",
    ),
    (
        "{ kind = \"tcp\", listen = \"127.0.0.1:25\", connect = \"127.0.0.1:24\", frame = { header = 1, payload = \"1 B\" } }",
        "input.listen",
        3,
        "or connects to one board",
        "remove `listen`",
    ),
    (
        "{ kind = \"tcp\", front_ends = 1, connect = \"127.0.0.1:24\", frame = { header = 1, payload = \"1 B\" } }",
        "input.front_ends",
        3,
        "has only the one board",
        "remove `front_ends`",
    ),
    (
        "{ kind = \"tcp\", front_ends = 2, listen = \"127.0.0.1:24\", frame = { header = 1, payload = \"1 B\" } }",
        "input.front_ends",
        3,
        "numbered as they arrive",
        "add counter",
    ),
    (
        "{ kind = \"unix\", path = \"a\", frame = { header = 1, payload = \"1 B\" } }\ncounter = { bits = 16 }",
        "counter",
        4,
        "the frame has no counter",
        "to the frame",
    ),
    (
        "{ kind = \"unix\", path = \"a\", frame = { header = 3, payload = \"1 B\", counter = { at = 0, bits = \"0-23\", bytes = 3 } } }\ncounter = { bits = 16 }",
        "counter.bits",
        4,
        "has 24 bits",
        "write bits = 24",
    ),
    (
        "{ kind = \"unix\", path = \"a\", frame = { header = 1, payload = \"1 B\" } }\nclock = { rate = \"1 MHz\", bits = 48 }",
        "clock",
        4,
        "the frame has no clock",
        "to the frame",
    ),
    (
        "{ kind = \"unix\", path = \"a\", frame = { header = 6, payload = \"1 B\", clock = { at = 0, bytes = 6 } } }\nclock = { rate = \"1 MHz\", bits = 32 }",
        "clock.bits",
        4,
        "has 48 bits, and not 32",
        "write bits = 48",
    ),
    (
        "{ kind = \"unix\", path = \"a\", frame = { header = 6, payload = \"1 kB\" } }\nmax_fragment = \"1 kB\"",
        "max_fragment",
        4,
        "a fragment of 1006 B",
        "leave max_fragment out",
    ),
];

#[test]
fn sources_that_do_not_fit_their_frames_are_refused() {
    for (input, key, line, reason, remedy) in SOURCES {
        let text = format!("[[source]]\nid = 1\ninput = {input}\n");
        refused(&text, &format!("source.{key}"), *line, reason, remedy);
    }
}
