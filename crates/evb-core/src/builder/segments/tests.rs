use super::*;
use crate::{
    id::{BuilderId, Epoch, SourceId},
    wire::datagram::Association,
};

fn header(sequence: u32, offset: u64) -> DatagramHeader {
    let (epoch, source, builder) = (Epoch::new(1), SourceId::new(2), BuilderId::new(3));
    DatagramHeader {
        kind: DatagramKind::Data,
        request: 0,
        association: Association { epoch, source, builder, connection: 4 },
        sequence,
        heard: 9,
        offset,
    }
}

#[test]
fn only_what_follows_joins() {
    let first = header(u32::MAX, 100);
    let follows = header(0, 107);
    let strangers = [
        DatagramHeader { sequence: 1, ..follows },
        DatagramHeader { offset: 108, ..follows },
        DatagramHeader { request: 1, ..follows },
        DatagramHeader { heard: 8, ..follows },
        DatagramHeader { kind: DatagramKind::Records, ..follows },
        DatagramHeader { association: Association { connection: 5, ..follows.association }, ..follows },
    ];
    for stranger in strangers {
        assert!(!Segments::one(first, &[0; 7]).join(&stranger, &[1]), "{stranger:?}");
    }
    assert!(!Segments::one(first, &[0; 7]).join(&follows, &[]));
    let mut segments = Segments::one(first, &[0; 7]);
    assert!(segments.join(&follows, &[1; 5]));
    assert!(segments.join(&header(1, 112), &[2]));
    assert_eq!((segments.count(), segments.length()), (3, 13));
    let apart: Vec<_> = segments.apart().map(|one| (*one.header(), one.bodies().to_vec())).collect();
    let expected =
        [(first, vec![&[0u8; 7][..]]), (follows, vec![&[1; 5][..]]), (header(1, 112), vec![&[2][..]])];
    assert_eq!(apart, expected);
}

#[test]
fn there_is_an_end_to_joining() {
    let mut segments = Segments::one(header(1, 0), &[0]);
    let joined = (1..200).take_while(|n| segments.join(&header(1 + n, u64::from(*n)), &[0])).count();
    assert_eq!(joined + 1, MOST);
}
