use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

use super::TurnsPort;
use crate::link::Link;

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
const FULL: Bytes = Bytes::new(1514);

fn port(limit: Bytes, incoming: &[u32]) -> TurnsPort<u32> {
    TurnsPort::new(Link::new(GIGABIT, Duration::ZERO), limit, incoming.to_vec(), 1500)
}

/// Sends all queued frames, and returns their numbers in the order in which they leave.
fn drain(port: &mut TurnsPort<u32>) -> Vec<u32> {
    let mut now = Instant::ZERO;
    core::iter::from_fn(|| {
        let (packet, left, _) = port.next(now)?;
        now = left;
        port.handle_left();
        Some(packet)
    })
    .collect()
}

#[test]
fn two_links_take_turns_whatever_came_first() {
    let mut port = port(Bytes::MAX, &[10, 20]);
    (0..4).for_each(|number| assert!(port.enqueue(10, number, FULL)));
    (4..6).for_each(|number| assert!(port.enqueue(20, number, FULL)));
    assert_eq!(drain(&mut port), [0, 4, 1, 5, 2, 3]);
}

/// Checks that links with frames of different sizes send equally many bytes.
#[test]
fn turns_are_of_bytes_and_not_of_frames() {
    let mut port = port(Bytes::MAX, &[10, 20]);
    for number in 0..100 {
        assert!(port.enqueue(10, number, FULL));
    }
    for number in 100..1000 {
        assert!(port.enqueue(20, number, Bytes::new(100)));
    }
    let first: Vec<u32> = drain(&mut port).into_iter().take(320).collect();
    let large = first.iter().filter(|number| **number < 100).count();
    let small = first.len() - large;
    assert!((large * 1514).abs_diff(small * 100) < 2 * 1514, "{large} large, {small} small");
}

#[test]
fn each_link_has_its_part_of_the_buffer() {
    let mut port = port(FULL * 6, &[10, 20]);
    let accepted =
        |port: &mut TurnsPort<u32>, via| (0..5).filter(|number| port.enqueue(via, *number, FULL)).count();
    assert_eq!(accepted(&mut port, 10), 3);
    assert_eq!(accepted(&mut port, 20), 3, "the other link has its own part");
    assert!(port.next(Instant::ZERO).is_some());
    assert!(port.next(Instant::ZERO).is_none(), "the line is busy");
    assert!(!port.enqueue(10, 9, FULL), "a frame takes space until its last bit has left");
    port.handle_left();
    assert!(port.enqueue(10, 9, FULL));
    assert_eq!((port.counters().dropped, port.counters().peak), (5, FULL * 6));
}
