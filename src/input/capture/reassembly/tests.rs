use super::*;

fn origin(id: u32) -> Origin {
    Origin { from: [10, 0, 0, 1].into(), to: [10, 0, 0, 2].into(), id, number: 17 }
}

fn take(
    reassembly: &mut IpReassembly,
    id: u32,
    offset: usize,
    has_more: bool,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    reassembly.take(origin(id), IpFragment { offset, has_more, bytes }).map(<[u8]>::to_vec)
}

#[test]
fn datagrams_that_mix_are_told_apart() {
    let mut reassembly = IpReassembly::default();
    assert_eq!(take(&mut reassembly, 1, 0, true, &[1; 8]), None);
    assert_eq!(take(&mut reassembly, 2, 8, false, &[2; 3]), None);
    assert_eq!(take(&mut reassembly, 1, 8, false, &[1; 5]), Some(vec![1; 13]));
    assert_eq!(take(&mut reassembly, 2, 0, true, &[2; 8]), Some(vec![2; 11]));
    reassembly.finish();
    assert_eq!(reassembly.unfinished, 0);
}

#[test]
fn a_datagram_without_all_fragments_is_given_up() {
    let mut reassembly = IpReassembly::default();
    for id in 0..1000 {
        assert_eq!(take(&mut reassembly, id, 0, true, &[0; 8]), None);
        assert!(reassembly.recent.len() <= MAX_DISTANCE as usize);
    }
    assert_eq!(reassembly.unfinished, 1000 - MAX_DISTANCE);
    // Its last fragment comes too late: the id may be that of another datagram by now.
    assert_eq!(take(&mut reassembly, 0, 8, false, &[0; 8]), None);
    assert_eq!(take(&mut reassembly, 999, 8, false, &[0; 8]).map(|whole| whole.len()), Some(16));
    reassembly.finish();
    assert_eq!(reassembly.unfinished, 1000);
}

#[test]
fn fragments_that_contradict_each_other_give_no_datagram() {
    let mut reassembly = IpReassembly::default();
    assert_eq!(take(&mut reassembly, 1, 8, false, &[0; 8]), None);
    assert_eq!(take(&mut reassembly, 1, 16, false, &[0; 8]), None);
    assert_eq!(take(&mut reassembly, 1, 0, true, &[0; 8]), None);
    assert_eq!(take(&mut reassembly, 2, 0, true, &[0; 7]), None, "no multiple of 8");
    assert_eq!(take(&mut reassembly, 3, 65_528, false, &[0; 9]), None, "too long");
    assert_eq!(reassembly.unfinished, 3);
}
