use evb_core::time::Instant;

use super::World;

#[test]
fn what_was_said_first_happens_first_at_equal_times() {
    let mut world = World::new();
    let at = Instant::from_nanos;
    for (time, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
        world.schedule(at(time), what);
    }
    assert_eq!(world.advance(), Some('a'));
    world.schedule(at(1), 'x');
    let rest: Vec<_> = core::iter::from_fn(|| world.advance()).collect();
    assert_eq!(
        (rest, world.now()),
        (vec!['b', 'x', 'c', 'd'], at(5)),
        "a step that is scheduled for the past happens now"
    );
}
