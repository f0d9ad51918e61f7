use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use evb_core::fragment::Timestamp;

use super::*;

fn fragment(event: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::default(), vec![7; 100])
}

#[tokio::test]
async fn a_push_that_is_given_up_keeps_nothing_of_the_backlog() {
    let (intake, outlet) = intake(Bytes::new(100), Bytes::mib(1), false);
    for event in 1..=CHANNEL as u64 {
        intake.push(fragment(event)).await.expect("there is room");
    }
    let free = outlet.permits.available_permits();
    assert!(free > 0);
    tokio::select! {
        biased;
        pushed = intake.push(fragment(5000)) => panic!("nobody takes what is in the channel: {pushed:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(outlet.permits.available_permits(), free);
}

/// Substitute for the driver: takes pushed fragments, keeps some in the backlog, and decides
/// events.
struct Taker {
    outlet: Outlet,
    taken: Vec<u64>,
    held: Vec<u64>,
    decided: u64,
}

impl Taker {
    /// Takes the fragments of up to `places` places of the channel.
    fn take(&mut self, places: usize) {
        for _ in 0..places {
            let Ok(pushed) = self.outlet.fragments.try_recv() else { break };
            for fragment in self.outlet.take(pushed) {
                self.taken.push(fragment.event.number());
                self.held
                    .extend((fragment.event.number() >= self.decided).then_some(fragment.event.number()));
            }
        }
    }

    /// Decides all events before `event`; their fragments leave the backlog.
    fn decide(&mut self, event: u64) {
        self.decided = event;
        self.held.retain(|held| *held >= event);
        let held = Bytes::new(100 * self.held.len() as u64);
        self.outlet.update(EventId::new(event), held, self.held.len());
    }
}

/// Pseudo-random numbers from a seed (xorshift64, G. Marsaglia, "Xorshift RNGs", 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A call of the source, and the events whose fragments it pushes.
enum Called {
    Push(u64),
    Reserve(u64),
    Many(std::ops::Range<u64>),
}

/// Polls a call some times while the driver takes fragments and decides events, and drops the call
/// if it is still not ready.
fn call<T>(call: impl Future<Output = T>, taker: &mut Taker, dice: &mut Dice) -> Option<T> {
    let mut call = pin!(call);
    for _ in 0..=dice.below(3) {
        if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(result);
        }
        if dice.below(8) == 0 {
            taker.take(dice.below(40) as usize);
            let pushed = taker.taken.last().map_or(1, |last| last + 1);
            taker.decide(taker.decided + dice.below(pushed.saturating_sub(taker.decided).max(1)));
        }
    }
    None
}

#[test]
fn ten_thousand_cancelled_calls_lose_nothing_and_keep_no_room() {
    let seed = 0x9e37_79b9_7f4a_7c15;
    println!("seed {seed:#x}");
    let mut dice = Dice(seed);
    for backlog in [Bytes::kib(8), Bytes::kib(256)] {
        let (intake, outlet) = intake(Bytes::new(100), backlog, false);
        let all = outlet.permits.available_permits();
        let mut taker = Taker { outlet, taken: Vec::new(), held: Vec::new(), decided: 1 };
        let (mut accepted, mut next, mut cancelled) = (Vec::new(), 1, [0; 3]);
        while cancelled.iter().any(|count| *count < 10_000 / 3) {
            match [Called::Push(next), Called::Reserve(next), Called::Many(next..next + 1 + dice.below(80))]
                .into_iter()
                .nth(dice.below(3) as usize)
                .unwrap()
            {
                Called::Push(event) => match call(intake.push(fragment(event)), &mut taker, &mut dice) {
                    Some(result) => accepted.extend(result.is_ok().then_some(event)),
                    None => cancelled[0] += 1,
                },
                Called::Reserve(event) => {
                    match call(intake.reserve(Bytes::new(dice.below(101))), &mut taker, &mut dice) {
                        // The test drops every eighth permit unused.
                        Some(permit) if dice.below(8) == 0 => drop(permit.unwrap()),
                        Some(permit) => {
                            permit.unwrap().push(fragment(event));
                            accepted.push(event);
                        }
                        None => cancelled[1] += 1,
                    }
                }
                Called::Many(events) => {
                    let mut fragments: Vec<_> = events.clone().map(fragment).collect();
                    match call(intake.push_many(&mut fragments), &mut taker, &mut dice) {
                        Some(result) => assert!(result.is_ok() && fragments.is_empty()),
                        None => cancelled[2] += 1,
                    }
                    accepted.extend(events.clone().take(events.clone().count() - fragments.len()));
                }
            }
            next = accepted.last().map_or(1, |last: &u64| last + 1);
        }
        taker.take(usize::MAX);
        taker.decide(next);
        assert_eq!(taker.taken, accepted, "pushed by halves or lost");
        assert_eq!(taker.outlet.permits.available_permits(), all, "some room was not given back");
    }
}

#[tokio::test]
async fn a_batch_stops_at_a_wrong_fragment_and_leaves_it_to_the_caller() {
    let (intake, outlet) = intake(Bytes::new(100), Bytes::mib(1), false);
    let mut fragments: Vec<_> = [1, 2, 0, 3].map(fragment).into();
    let refused = intake.push_many(&mut fragments).await;
    assert_eq!(refused, Err(PushError::Refused(Refused::EventZero)));
    assert_eq!(fragments.iter().map(|left| left.event.number()).collect::<Vec<_>>(), [0, 3]);
    let mut taker = Taker { outlet, taken: Vec::new(), held: Vec::new(), decided: 1 };
    taker.take(usize::MAX);
    assert_eq!(taker.taken, [1, 2]);
}

#[tokio::test]
async fn what_does_not_fit_at_once_comes_back() {
    let (intake, outlet) = intake(Bytes::new(100), Bytes::new(200), false);
    assert!(intake.try_push(fragment(2)).is_ok());
    let full = intake.try_push(fragment(3)).expect_err("there is room for one");
    assert!(matches!(full, TryPushError::Full(_)) && full.into_fragment().event == EventId::new(3));
    // A fragment of the first undecided event waits for the backlog; a fragment of a decided event
    // does not.
    assert!(matches!(intake.try_push(fragment(1)), Err(TryPushError::Full(_))));
    outlet.begin(EventId::new(2));
    assert!(intake.try_push(fragment(1)).is_ok());
    let refused = intake.try_push(fragment(0)).expect_err("there is no event 0");
    assert!(matches!(refused, TryPushError::Refused { reason: Refused::EventZero, .. }));
    let larger = intake.reserve(Bytes::new(101)).await.expect_err("no fragment is as large");
    assert_eq!(larger, PushError::Reservation { size: Bytes::new(101), limit: Bytes::new(100) });
    drop(outlet);
    assert!(matches!(intake.try_push(fragment(4)), Err(TryPushError::Ended(_) | TryPushError::Full(_))));
    assert_eq!(intake.push(fragment(1)).await, Err(PushError::Ended));
}

/// One permit reserves less than the size of its fragment, the other exactly that size.
#[tokio::test]
async fn room_that_was_reserved_follows_what_is_pushed() {
    let (intake, outlet) = intake(Bytes::new(100), Bytes::new(1000), false);
    let mut taker = Taker { outlet, taken: Vec::new(), held: Vec::new(), decided: 1 };
    for (event, reserved) in [(1, 0), (2, 100)] {
        intake.reserve(Bytes::new(reserved)).await.unwrap().push(fragment(event));
    }
    taker.take(usize::MAX);
    taker.decide(1);
    assert_eq!(taker.outlet.permits.available_permits(), 1000 - 2 * 164 + 100, "the excess is not charged");
    taker.decide(3);
    assert_eq!(taker.outlet.permits.available_permits(), 1000);
}

/// The values of a counter may be 0 or far from any event, and do not pass a full backlog.
#[tokio::test]
async fn values_of_a_counter_are_pushed_as_they_are_and_wait_for_the_backlog() {
    let (intake, mut outlet) = intake(Bytes::new(100), Bytes::new(400), true);
    outlet.begin(EventId::new(70_000));
    outlet.update(EventId::new(80_000), Bytes::ZERO, 0);
    for value in [0, u64::MAX] {
        intake.try_push(fragment(value)).expect("there is room");
    }
    assert!(matches!(intake.try_push(fragment(7)), Err(TryPushError::Full(_))));
    let oversize = Fragment::new(EventId::new(1), Timestamp::default(), vec![0; 101]);
    assert!(matches!(intake.push(oversize).await, Err(PushError::Refused(Refused::Oversize { .. }))));
    let mut taker = Taker { outlet, taken: Vec::new(), held: Vec::new(), decided: 1 };
    taker.take(usize::MAX);
    assert_eq!(taker.taken, [0, u64::MAX]);
}
