use super::*;

#[test]
fn bytes_are_found_across_segments_until_they_are_acknowledged() {
    let mut sent = Sent::default();
    let stream: Vec<u8> = (0..30).collect();
    for segment in stream.chunks(7) {
        sent.append(Bytes::copy_from_slice(segment));
    }
    for acknowledged in 0..=stream.len() {
        for start in 0..stream.len() - acknowledged {
            for length in 1..=stream.len() - acknowledged - start {
                let begin = acknowledged + start;
                assert_eq!(sent.copy(start, length), stream[begin..begin + length]);
            }
        }
        sent.acknowledged(1);
    }
    assert!(sent.segments.is_empty(), "an idle stream keeps no segment");
}
