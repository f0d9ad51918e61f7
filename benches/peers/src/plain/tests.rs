use super::builder::Progress;
use crate::payload::{Header, Template};

fn stream(source: u32, size: usize, events: impl Iterator<Item = u64>) -> Vec<u8> {
    let (template, mut bytes) = (Template::new(), Vec::new());
    for event in events {
        bytes.extend_from_slice(&Header { event, source, length: size as u32 }.encode());
        template.append(&mut bytes, source, event, size);
    }
    bytes
}

#[test]
fn fragments_are_counted_however_the_stream_is_cut() {
    for size in [16, 17, 100] {
        let bytes = stream(3, size, (2..42).step_by(4));
        for cut in 1..bytes.len() {
            let mut progress = Progress::new(3, size, 2, 4);
            for piece in bytes.chunks(cut) {
                progress.take(piece).expect("a good stream");
            }
            assert_eq!(progress.fragments(), 10, "size {size}, cut {cut}");
        }
    }
}

#[test]
fn a_wrong_stamp_event_or_source_is_an_error() {
    let good = stream(1, 64, 1..4);
    assert!(Progress::new(1, 64, 1, 1).take(&good).is_ok());
    for (at, what) in
        [(0, "event"), (8, "source"), (12, "length"), (16, "stamp"), (31, "stamp"), (96 + 4, "stamp")]
    {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(Progress::new(1, 64, 1, 1).take(&bad).is_err(), "{what} at {at}");
    }
    assert!(Progress::new(1, 64, 1, 2).take(&good).is_err(), "an event of another builder");
}
