use core::time::Duration;

use evb_core::{rng::Rng, time::Instant};

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

/// Checks that lines and steps far ahead change nothing in the order of random steps.
#[test]
fn lines_keep_the_order_of_all_steps() {
    let mut rng = Rng::new(3);
    let mut world = World::with_lines(4);
    let mut expected = Vec::new();
    let mut found = Vec::new();
    for step in 0..20_000 {
        let span = [100, 10_000, 10_000_000][rng.below(3) as usize];
        let at = world.now() + Duration::from_nanos(rng.below(span));
        expected.push((at, step));
        match rng.below(5) {
            4 => world.schedule(at, step),
            line => world.schedule_in(line as u32, at, step),
        }
        if rng.below(3) > 0 {
            found.extend(world.advance().map(|step| (world.now(), step)));
        }
    }
    found.extend(core::iter::from_fn(|| world.advance().map(|step| (world.now(), step))));
    expected.sort_unstable();
    assert_eq!(found, expected);
}
