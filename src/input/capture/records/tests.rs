use super::*;
use crate::input::capture::tests::build::*;

/// A packet: nanoseconds behind [`SECOND`], link type, bytes, and whether they are cut.
type Found = (u128, i32, Vec<u8>, bool);

/// Returns all packets of a file.
fn records(file: Vec<u8>) -> (Vec<Found>, Option<Broken>) {
    let mut all = Vec::new();
    let mut records = match Records::new(std::io::Cursor::new(file)) {
        Ok(records) => records,
        Err(broken) => return (all, Some(broken)),
    };
    let begin = u128::from(SECOND) * 1_000_000_000;
    loop {
        let next = records.next(|record| {
            let time = record.time.as_nanos().wrapping_sub(begin);
            (time, record.link.0, record.bytes.to_vec(), record.is_cut)
        });
        match next {
            Ok(Some(record)) => all.push(record),
            Ok(None) => return (all, None),
            Err(broken) => return (all, Some(broken)),
        }
    }
}

#[test]
fn times_have_the_unit_of_their_file() {
    let packets = [(7, b"one".to_vec()), (9, b"three".to_vec())];
    for order in [Order::Little, Order::Big] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let (all, broken) = records(pcap_at(order, magic, 1, &packets));
            assert_eq!(broken, None);
            assert_eq!(all, [(7 * unit, 1, b"one".to_vec(), false), (9 * unit, 1, b"three".to_vec(), false)]);
        }
        let second = u64::from(SECOND);
        for (resolution, units, nanos) in [
            (6, second * 1_000_000 + 5, 5000),
            (9, second * 1_000_000_000 + 5, 5),
            (0x82, second * 4 + 3, 750_000_000),
            (0, second, 0),
        ] {
            let file = [section(order), interface(order, 113, resolution), enhanced(order, 0, units, b"one")];
            let (all, broken) = records(file.concat());
            assert_eq!((all, broken), (vec![(nanos, 113, b"one".to_vec(), false)], None), "{resolution}");
        }
        // Resolutions that cannot be do not divide by zero.
        for resolution in [20, 0x7f, 0xff] {
            let file =
                [section(order), interface(order, 1, resolution), enhanced(order, 0, u64::MAX, b"one")];
            assert_eq!(records(file.concat()).0.len(), 1);
        }
    }
}

#[test]
fn each_section_has_interfaces_of_its_own() {
    let order = Order::Little;
    let at = u64::from(SECOND) * 1_000_000_000;
    let file = [
        section(order),
        interface(order, 1, 9),
        interface(order, 101, 6),
        enhanced(order, 1, at / 1000 + 1, b"second"),
        enhanced(order, 7, at, b"of no interface"),
        simple(order, b"of the first"),
        section(Order::Big),
        interface(Order::Big, 276, 9),
        enhanced(Order::Big, 0, at + 3, b"new"),
    ];
    let (all, broken) = records(file.concat());
    assert_eq!(broken, None);
    let expected = [(1000, 101, &b"second"[..]), (1000, 1, b"of the first"), (3, 276, b"new")];
    assert_eq!(all.len(), expected.len());
    for (record, expected) in all.iter().zip(expected) {
        assert_eq!(
            (record.0, record.1, &record.2[..], record.3),
            (expected.0, expected.1, expected.2, false)
        );
    }
}

#[test]
fn packets_that_are_cut_are_known() {
    let file = pcap_cut(Order::Big, 0xa1b2_c3d4, 1, &[(0, b"cut".to_vec(), 4), (1, b"whole".to_vec(), 5)]);
    let (all, _) = records(file);
    assert_eq!(all.iter().map(|record| record.3).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_block_that_cannot_be_ends_the_file() {
    let whole = pcap(Order::Little, 0xa1b2_c3d4, 1, &[b"one".to_vec(), b"two".to_vec()]);
    let (all, broken) = records(whole[..whole.len() - 1].to_vec());
    assert_eq!((all.len(), broken), (1, Some(Broken::CutShort(24 + 16 + 3))));
    // A packet of 16 MiB is none.
    let mut large = whole.clone();
    large[24 + 19 + 8..24 + 19 + 12].copy_from_slice(&(16_u32 << 20).to_le_bytes());
    large.extend(vec![0; 17 << 20]);
    let (all, broken) = records(large);
    assert_eq!((all.len(), broken), (1, Some(Broken::Damaged(24 + 16 + 3))));
    // One that has more room than others is read.
    let block = vec![7; 1 << 20];
    let (all, broken) = records(pcapng(Order::Little, 1, std::slice::from_ref(&block)));
    assert_eq!((all.len(), &all[0].2, broken), (1, &block, None));
    for bytes in [&b""[..], b"\xd4\xc3\xb2\xa1", b"no capture at all, but text"] {
        assert_eq!(records(bytes.to_vec()).1, Some(Broken::NoCapture));
    }
}

#[test]
fn captures_are_known_by_their_begin() {
    for order in [Order::Little, Order::Big] {
        for file in [pcap(order, 0xa1b2_c3d4, 1, &[]), pcap(order, 0xa1b2_3c4d, 1, &[]), section(order)] {
            assert!(is_capture(*file.first_chunk().unwrap()));
        }
    }
    assert!(!is_capture(*b"\xeb\x90\0\0"));
    assert!(!is_capture([0; 4]));
}
