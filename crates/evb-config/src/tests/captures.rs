//! Replayed captures: what they mean, and what is said about wrong ones.

use evb_core::{
    flow::{FlowFilter, ReplaySpeed},
    framing::{Extent, OnLoss},
};

use super::{good, refused};
use crate::Input;

fn pcap(keys: &str) -> String {
    format!("[[source]]\nid = 1\ninput = {{ kind = \"pcap\", {keys} }}\n")
}

const FRAME: &str = "frame = { header = 8, payload = \"1 kB\", counter = { at = 0, bytes = 8 } }";

#[test]
fn a_capture_is_read_with_all_its_keys() {
    let input = |keys: &str| good(&pcap(&format!("{keys}, {FRAME}"))).sources[0].input.clone();
    let Input::Capture { paths, speed, filter, on_loss, frame } = input("path = \"run.pcap\"") else {
        panic!("a capture")
    };
    assert_eq!((paths, speed), (vec!["run.pcap".into()], ReplaySpeed::Times(1.0)));
    assert_eq!((filter, on_loss, frame.extent), (FlowFilter::default(), OnLoss::Drop, Extent::Fixed(1000)));
    let all = "paths = [\"b\", \"a\"], speed = 2, from = \"192.168.10.16:24\", to = \"[::1]:5000\"";
    let Input::Capture { paths, speed, filter, .. } = input(all) else { panic!("a capture") };
    assert_eq!((paths, speed), (vec!["b".into(), "a".into()], ReplaySpeed::Times(2.0)));
    assert_eq!(filter.from.to_string(), "192.168.10.16:24");
    assert_eq!(filter.to.to_string(), "[::1]:5000");
    for (speed, expected) in
        [("0.5", ReplaySpeed::Times(0.5)), ("1e3", ReplaySpeed::Times(1000.0)), ("\"max\"", ReplaySpeed::Max)]
    {
        let keys = format!("path = \"a\", speed = {speed}, from = \"24\"");
        let Input::Capture { speed, filter, .. } = input(&keys) else { panic!("a capture") };
        assert_eq!((speed, filter.from.port, filter.from.ip), (expected, Some(24), None));
    }
    // Datagrams may be packets of fragments.
    let packets = "packets = { number = { at = 4, bytes = 2 }, last = { at = 6, bits = \"7\" } }";
    let keys = format!(
        "path = \"a\", on_loss = \"fill\", frame = {{ header = 8, counter = {{ at = 0, bytes = 4 }} }}, {packets}"
    );
    let config = good(&(pcap(&keys) + "counter = { bits = 32 }\n"));
    let Input::Capture { on_loss, frame, .. } = &config.sources[0].input else { panic!("a capture") };
    assert!(frame.packets.is_some() && *on_loss == OnLoss::Fill && frame.extent == Extent::Datagram);
}

/// Wrong inputs: the keys, the key, reason and remedy.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("FRAME", "path", "has no `path`", "add path ="),
    ("path = \"a\"", "frame", "has no `frame`", "add for example frame = {"),
    ("path = \"a\", paths = [\"b\"], FRAME", "paths", "the only file", "remove `path`, or `paths`"),
    ("paths = [], FRAME", "paths", "has no file", "paths = [\"first.pcap\""),
    ("paths = [\"\"], FRAME", "paths", "name is empty", "paths = [\"first.pcap\""),
    ("paths = \"a\", FRAME", "paths", "`paths` is text, not", "write"),
    ("path = \"\", FRAME", "path", "`path` is empty", "write a path"),
    ("path = [\"a\"], FRAME", "path", "`path` is a list, not text", "path ="),
    ("path = \"a\", speed = 0, FRAME", "speed", "not a possible value", "speed = 1.0"),
    ("path = \"a\", speed = -1.5, FRAME", "speed", "not a possible value", "above zero"),
    ("path = \"a\", speed = inf, FRAME", "speed", "not a possible value", "above zero"),
    ("path = \"a\", speed = nan, FRAME", "speed", "not a possible value", "above zero"),
    ("path = \"a\", speed = \"fast\", FRAME", "speed", "neither a number nor \"max\"", "speed = \"max\""),
    ("path = \"a\", speed = true, FRAME", "speed", "`speed` is true or false, not a number", "speed = 1.0"),
    (
        "path = \"a\", from = \"daq0:24\", FRAME",
        "from",
        "`daq0:24` is neither an IP address",
        "have no host names",
    ),
    ("path = \"a\", to = \"10.0.0.256\", FRAME", "to", "neither an IP address", "\"192.168.10.16:24\""),
    ("path = \"a\", to = 24, FRAME", "to", "`to` is a whole number, not text", "to = \"192.168.10.16:24\""),
    (
        "path = \"a\", before_start = \"keep\", FRAME",
        "before_start",
        "unknown key `before_start`",
        "keys here:",
    ),
    ("path = \"a\", form = \"24\", FRAME", "form", "unknown key `form`", "did you mean `from`?"),
    ("path = \"a\", on_loss = \"drop\", FRAME", "on_loss", "belongs to `packets`", "add `packets`"),
    ("path = \"a\", frame = { header = 4, magic = \"e\" }", "frame.magic", "not bytes", "two hexadecimal"),
];

#[test]
fn wrong_captures_are_refused_with_key_line_reason_and_remedy() {
    for (keys, key, reason, remedy) in WRONG {
        let text = pcap(&keys.replace("FRAME", FRAME));
        let problems = refused(&text, &format!("source.input.{key}"), 3, reason, remedy);
        assert_eq!(problems.iter().count(), 1, "{keys}:\n{problems}");
    }
}
