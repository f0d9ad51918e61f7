//! Declared datagrams and packets: what they mean, and what is said about wrong ones.

use evb_core::{
    framing::{Extent, FrameField, Kept, LastPacket, OnLoss, PacketLayout},
    units::Bytes,
};

use super::{bad, good, refused};
use crate::{BoardPlace, Input, Sender};

fn udp(keys: &str) -> String {
    format!(
        "[[source]]\nid = 1\ninput = {{ kind = \"udp\", listen = \"127.0.0.1:4660\", {keys} }}\ncounter = {{ bits = 32 }}\n"
    )
}

#[test]
fn a_declared_datagram_is_read() {
    let config = good(&udp(
        "from = \"127.0.0.1:24\", receive_buffer = \"1 MiB\", on_loss = \"fill\", frame = { header = 8, counter = { at = 0, bytes = 4 } }, packets = { number = { at = 4, bytes = 2 }, last = { at = 6, bits = \"7\" }, first = 1 }",
    ));
    let Input::Board { place: BoardPlace::Udp(place), frame, .. } = &config.sources[0].input else {
        panic!("{config:?}")
    };
    assert_eq!(place.from, Some(Sender { host: "127.0.0.1".to_owned(), port: Some(24) }));
    assert_eq!((place.receive_buffer, place.on_loss), (Bytes::mib(1), OnLoss::Fill));
    let mark = FrameField { low: 7, ..FrameField::new(6, 1) };
    let packets =
        PacketLayout::Numbered { number: FrameField::new(4, 2), first: 1, end: LastPacket::Mark(mark) };
    assert_eq!(frame.packets, Some(packets));
    assert_eq!((&frame.extent, frame.keep), (&Extent::Datagram, Kept::Payload));
    // What a sender of SPEAD-64-48 sends; the group is joined on the loopback.
    good(&udp(
        "group = \"239.1.2.3\", interface = \"127.0.0.1\", frame = { magic = \"53040206\", header = 40, counter = { at = 12, bytes = 4 }, length = { at = 34, bytes = 6, counts = \"tail\" } }, packets = { offset = { at = 26, bytes = 6 }, total = { at = 18, bytes = 6 } }",
    ));
}

const FRAME: &str = "frame = { header = 8, counter = { at = 0, bytes = 4 } }";

/// Wrong inputs: the keys, the key, reason and remedy.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("", "frame", "has no `frame`", "frame = {"),
    ("FRAME, packets = {}", "packets", "do not tell where a packet belongs", "give either `number`"),
    (
        "FRAME, packets = { number = { at = 4, bytes = 2 } }",
        "packets",
        "how many packets a fragment has",
        "fixed_count = 58",
    ),
    (
        "FRAME, packets = { number = { at = 4, bytes = 2 }, fixed_count = 2, last = { at = 6, bytes = 1 } }",
        "packets",
        "how many packets a fragment has",
        "give one of",
    ),
    ("FRAME, packets = { offset = { at = 4, bytes = 2 } }", "packets", "do not tell where", "`total`"),
    (
        "FRAME, packets = { offset = { at = 4, bytes = 2 }, total = { at = 6, bytes = 2 }, first = 1 }",
        "packets.first",
        "have no numbers",
        "or give `number` in place",
    ),
    (
        "FRAME, packets = { number = { at = 7, bytes = 2 }, fixed_count = 2 }",
        "packets.number",
        "ends 9 bytes after the start",
        "header = 9",
    ),
    (
        "FRAME, packets = { number = { at = 3, bytes = 2 }, fixed_count = 2 }",
        "packets.number",
        "overlap in byte 3",
        "offsets count from 0",
    ),
    (
        "FRAME, packets = { number = { at = 4 }, fixed_count = 2 }",
        "packets.number.bytes",
        "how wide this field is",
        "add bytes",
    ),
    (
        "FRAME, packets = { number = { bytes = 4 }, fixed_count = 2 }",
        "packets.number.at",
        "has no `at`",
        "at = 4",
    ),
    (
        "FRAME, packets = { number = { at = 4, bytes = 2 }, fixed_count = 0 }",
        "packets.fixed_count",
        "not a possible value",
        "from 1 to 16384",
    ),
    (
        "FRAME, packets = { number = { at = 4, bytes = 2 }, fixed_count = 2, first = 2 }",
        "packets.first",
        "not a possible value",
        "from 0 to 1",
    ),
    ("FRAME, packets = { nr = { at = 4, bytes = 2 } }", "packets.nr", "unknown key `nr`", "write one of"),
    (
        "frame = { header = 8 }, packets = { number = { at = 4, bytes = 2 }, fixed_count = 2 }",
        "frame.counter",
        "which packets belong to one fragment",
        "add the counter",
    ),
    (
        "frame = { header = 8, keep = \"frame\", counter = { at = 0, bytes = 4 } }, packets = { number = { at = 4, bytes = 2 }, fixed_count = 2 }",
        "frame.keep",
        "only the payloads of its packets",
        "keep = \"payload\"",
    ),
    (
        "frame = { header = 8, delimiter = \"0a\", counter = { at = 0, bytes = 4 } }, packets = { number = { at = 4, bytes = 2 }, fixed_count = 2 }",
        "frame.delimiter",
        "ends with its datagram",
        "remove `delimiter`",
    ),
    ("FRAME, on_loss = \"fill\"", "on_loss", "belongs to `packets`", "add `packets`"),
    ("FRAME, on_loss = \"zero\"", "on_loss", "zero", "\"keep-short\""),
    ("FRAME, receive_buffer = \"0 B\"", "receive_buffer", "zero", "above zero"),
    ("FRAME, group = \"10.0.0.1\"", "group", "not the address of a multicast group", "without a port"),
    ("FRAME, group = \"239.1.2.3\"", "group", "beyond this machine", "interface = \"127.0.0.1\""),
    ("FRAME, interface = \"127.0.0.1\"", "interface", "belongs to `group`", "group = \"239.1.2.3\""),
    ("FRAME, from = \"a b\"", "from", "neither a host nor", "192.168.10.16:4660"),
    ("FRAME, front_ends = 1", "front_ends", "unknown key", "remove it"),
];

#[test]
fn wrong_datagrams_are_refused_with_key_line_reason_and_remedy() {
    for (keys, key, reason, remedy) in WRONG {
        let keys = keys.replace("FRAME", FRAME);
        refused(&udp(&keys), &format!("source.input.{key}"), 3, reason, remedy);
    }
    for (listen, reason) in [("192.168.10.1:4660", "not a loopback address"), ("127.0.0.1:0", "port 0")] {
        let text = format!(
            "[[source]]\nid = 1\ninput = {{ kind = \"udp\", listen = \"{listen}\", {FRAME} }}\ncounter = {{ bits = 32 }}\n"
        );
        let problems = bad(&text);
        assert!(problems.iter().any(|problem| problem.reason.contains(reason)), "{problems}");
    }
    let tail = "[[source]]\nid = 1\ninput = { kind = \"stream\", path = \"a\", frame = { header = 4, length = { at = 0, bytes = 2, counts = \"tail\" } } }\n";
    let problems = bad(tail);
    assert!(problems.iter().any(|problem| problem.key == "source.input.frame.length.counts"), "{problems}");
}
