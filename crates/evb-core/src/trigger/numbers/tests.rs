use super::*;

/// Announces these numbers, each with a time of its own, and returns the counts and whether each
/// announcement showed a restart.
fn announce(numbers: &mut TriggerNumbers, told: impl IntoIterator<Item = u64>, time: &mut u64) -> usize {
    let mut restarts = 0;
    for number in told {
        *time += 1;
        restarts += usize::from(hand(numbers, Announcement { number, sent_ns: *time }) == Judged::Restarted);
    }
    restarts
}

fn hand(numbers: &mut TriggerNumbers, announcement: Announcement) -> Judged {
    let judged = numbers.judge(announcement);
    if let Judged::New(_) = judged {
        numbers.take(announcement);
    }
    judged
}

#[test]
fn numbers_rise_and_may_skip() {
    let mut numbers = TriggerNumbers::after(0);
    for (number, new) in [(1, 1), (2, 1), (5, 3), (6, 1)] {
        assert_eq!(hand(&mut numbers, Announcement { number, sent_ns: 0 }), Judged::New(new));
    }
    let far = Announcement { number: 7 + MAX_COUNT, sent_ns: 0 };
    assert_eq!(numbers.judge(far), Judged::TooFarAhead);
    let counts = AnnouncementCounts { unannounced: 2, too_far_ahead: 1, ..AnnouncementCounts::default() };
    assert_eq!((numbers.counts(), numbers.last()), (counts, 6));
}

#[test]
fn a_program_that_begins_to_count_again_is_noticed_at_its_third_trigger() {
    for taken in [3, 10, 1000] {
        let (mut numbers, mut time) = (TriggerNumbers::after(0), 0);
        announce(&mut numbers, 1..=taken, &mut time);
        assert_eq!(announce(&mut numbers, [1, 2], &mut time), 0, "after {taken}");
        assert_eq!(announce(&mut numbers, 3..=taken, &mut time), 1, "after {taken}");
        assert_eq!((numbers.counts().repeated, numbers.counts().restarts), (taken, 1));
    }
    // A program that is started again twice, and one whose triggers carry no time.
    let (mut numbers, mut time) = (TriggerNumbers::after(500), 0);
    assert_eq!(announce(&mut numbers, (1..10).chain(1..10), &mut time), 2);
    let mut numbers = TriggerNumbers::after(0);
    let judged = |number| hand(&mut numbers, Announcement { number, sent_ns: 0 });
    let restarts = (1..=20).chain(1..=20).map(judged).filter(|judged| *judged == Judged::Restarted).count();
    assert_eq!(restarts, 1);
}

#[test]
fn late_announcements_and_copies_are_no_restart() {
    let (mut numbers, mut time) = (TriggerNumbers::after(0), 0);
    announce(&mut numbers, [1, 2, 10], &mut time);
    assert_eq!(numbers.counts().unannounced, 7);
    assert_eq!(announce(&mut numbers, 3..10, &mut time), 0);
    assert_eq!(numbers.counts(), AnnouncementCounts::default(), "all have arrived");
    let all: Vec<_> = (11..60).map(|number| Announcement { number, sent_ns: 1000 + number }).collect();
    for announcement in all.iter().chain(&all) {
        assert_ne!(hand(&mut numbers, *announcement), Judged::Restarted);
    }
    assert_eq!((numbers.counts().repeated, numbers.counts().restarts), (49, 0));
}
