use evb_core::{
    id::{BuilderId, Epoch, SourceId},
    wire::datagram::{Association, DatagramHeader, DatagramKind},
};
use zeroize::Zeroizing;

use super::{DatagramTags, TagDatagrams as _, Unbelieved};
use crate::security::Keys;

fn pair() -> [DatagramTags; 2] {
    let key = |byte| Zeroizing::new([byte; 32]);
    let ours = Keys { stream_out: key(1), stream_in: key(2), datagrams_out: key(3), datagrams_in: key(4) };
    let theirs = Keys { stream_out: key(2), stream_in: key(1), datagrams_out: key(4), datagrams_in: key(3) };
    [ours, theirs].map(|keys| DatagramTags::new(&keys))
}

fn header(kind: DatagramKind, sequence: u32) -> DatagramHeader {
    let association = Association {
        epoch: Epoch::new(1),
        source: SourceId::new(2),
        builder: BuilderId::new(3),
        connection: 4,
    };
    DatagramHeader { kind, request: 0, association, sequence, heard: 0, offset: 0 }
}

/// Returns the bytes and the tag of a datagram that `from` sends.
fn sent(from: &mut DatagramTags, header: &DatagramHeader) -> (Vec<u8>, [u8; 16]) {
    let bytes = header.seal([&b"body"[..]]);
    let tag = from.tag(&bytes, &[&b"body"[..]]);
    ([&bytes[..], b"body"].concat(), tag)
}

#[test]
fn numbers_go_on_beyond_32_bits() {
    let [mut from, mut to] = pair();
    let mut sequence: u32 = 1;
    let mut first = None;
    for _ in 0..16 {
        let header = header(DatagramKind::Data, sequence);
        let (bytes, tag) = sent(&mut from, &header);
        assert_eq!(to.check(&header, &bytes, &tag), Ok(()), "{sequence:#x}");
        assert_eq!(to.check(&header, &bytes, &tag), Err(Unbelieved::Replayed));
        let (header, bytes, tag) = first.get_or_insert((header, bytes, tag)).clone();
        // After 2³² datagrams, the same 32 bits stand for another full number, so that a recorded
        // datagram no longer has the right tag.
        assert!(to.check(&header, &bytes, &tag).is_err(), "{sequence:#x}");
        sequence = sequence.wrapping_add(1 << 29);
    }
    assert_eq!(from.sent >> 32, 1);
}

#[test]
fn each_direction_and_class_has_numbers_of_its_own() {
    let [mut from, mut to] = pair();
    for kind in [DatagramKind::Data, DatagramKind::Records] {
        let header = header(kind, if kind == DatagramKind::Data { 1 } else { 2 });
        let (bytes, tag) = sent(&mut from, &header);
        assert_eq!(from.check(&header, &bytes, &tag), Err(Unbelieved::Forged), "reflected");
        assert_eq!(to.check(&header, &bytes, &tag), Ok(()));
    }
    for (sequence, outcome) in
        [(1, Ok(())), (3, Ok(())), (2, Err(Unbelieved::Replayed)), (3, Err(Unbelieved::Replayed))]
    {
        let header = header(DatagramKind::Probe, sequence);
        let (bytes, tag) = sent(&mut from, &header);
        assert_eq!(to.check(&header, &bytes, &tag), outcome, "probe {sequence}");
    }
}

#[test]
fn a_forged_number_does_not_move_the_window() {
    let [mut from, mut to] = pair();
    let far = header(DatagramKind::Data, 1 << 30);
    assert_eq!(to.check(&far, &far.seal([]), &[0; 16]), Err(Unbelieved::Forged));
    let header = header(DatagramKind::Data, 1);
    let (bytes, tag) = sent(&mut from, &header);
    assert_eq!(to.check(&header, &bytes, &tag), Ok(()));
}
