use super::*;

#[test]
fn no_link_carries_more_than_a_full_stream() {
    for pattern in &PATTERNS {
        let of = |end: fn(&(u16, u16, f64)) -> u16, id| -> f64 {
            pattern.streams.iter().filter(|stream| end(stream) == id).map(|stream| stream.2).sum()
        };
        for id in 1..=4 {
            let (sent, received) = (of(|stream| stream.0, id), of(|stream| stream.1, id));
            assert!(sent <= ATM && received <= ATM, "{} {id}: {sent} {received}", pattern.name);
        }
        let ends = pattern.streams.iter().flat_map(|(from, to, _)| [*from, *to]);
        assert!(ends.max() <= Some(shape().sources.min(shape().builders)), "{}", pattern.name);
    }
}

#[test]
fn the_trunk_carries_all_ports() {
    assert!(TRUNK.rate >= RATE * u64::from(shape().builders));
}
