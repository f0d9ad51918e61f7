use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{REPLAY_WINDOW, ReplayWindow, extend};

#[test]
fn each_number_is_new_once() {
    let mut window = ReplayWindow::default();
    assert!(!window.is_new(0), "numbers begin at 1");
    for number in [1, 3, 2, 64, 63, 65, 10_000, 10_000 - REPLAY_WINDOW + 1, 9_999] {
        assert!(window.is_new(number), "{number}");
        window.insert(number);
        assert!(!window.is_new(number), "{number} again");
    }
    assert!(!window.is_new(10_000 - REPLAY_WINDOW), "too old to tell");
    window.insert(u64::from(u32::MAX) * 5);
    assert!(!window.is_new(10_001));
}

#[test]
fn low_halves_stand_for_the_nearest_numbers() {
    const TURN: u64 = 1 << 32;
    assert_eq!(extend(1, 0), 1);
    assert_eq!(extend(7, TURN + 5), TURN + 7);
    assert_eq!(extend(u32::MAX, TURN + 5), TURN - 1);
    assert_eq!(extend(3, TURN - 2), TURN + 3);
    assert_eq!(extend(5, 3 * TURN + 5), 3 * TURN + 5);
}

proptest! {
    #[test]
    fn it_is_a_set_of_late(steps in prop::collection::vec((0u64..3, 0u64..9000), 1..400)) {
        let (mut window, mut came, mut highest) = (ReplayWindow::default(), BTreeSet::from([0u64]), 0u64);
        for (way, step) in steps {
            let number = match way {
                0 => highest + step / 100,
                1 => highest + step,
                _ => highest.saturating_sub(step),
            };
            let is_new = number > highest || (highest - number < REPLAY_WINDOW && !came.contains(&number));
            prop_assert_eq!(window.is_new(number), is_new, "{} after {}", number, highest);
            if is_new {
                window.insert(number);
                came.insert(number);
                highest = highest.max(number);
            }
        }
    }
}
