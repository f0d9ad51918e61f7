//! Fuzz target for the checksum of payloads, whose paths use vector instructions and unsafe code.

/// Computes the checksum of the bytes behind the first two by each path that the processor
/// supports, at once and in pieces. The first two bytes choose the alignment and the size of the
/// pieces.
///
/// # Panics
/// Panics if a path does not agree with crc-fast.
pub fn check(data: &[u8]) {
    let Some(([offset, piece], bytes)) = data.split_first_chunk() else { return };
    let bytes = bytes.get(usize::from(offset % 64)..).unwrap_or_default();
    let paths = evb_crc::supported();
    let Some((_, crc_fast)) = paths.last() else { panic!("crc-fast is on every processor") };
    let expected = crc_fast(u64::MAX, bytes);
    assert_eq!(evb_crc::checksum(bytes), !expected);
    for (name, path) in &paths {
        assert_eq!(path(u64::MAX, bytes), expected, "{name}");
        let pieces = bytes.chunks(usize::from(*piece) + 1);
        assert_eq!(pieces.fold(u64::MAX, path), expected, "{name}: in pieces");
    }
}

/// Returns the seed corpus: lengths on both sides of those at which the paths change their way.
pub fn seeds() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 4, 8, 16, 64, 128, 240, 256, 384, 448, 512, 704, 1024, 4000];
    let beside = lengths.into_iter().flat_map(|length| [length, length + 1, length + 7, length + 9]);
    beside.map(|length| (0..length + 2).map(|at| (at * 37) as u8).collect()).collect()
}
