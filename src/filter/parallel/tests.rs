use std::{
    sync::{Arc, Barrier},
    time::Duration,
};

use evb_core::{event::Event, id::EventId};

use super::{Filter, FilterVerdict, ParallelFilter};

fn events(count: u64) -> Vec<Event> {
    let event = |id| {
        let mut event = Event::default();
        event.id = EventId::new(id);
        event
    };
    (1..=count).map(event).collect()
}

#[test]
fn verdicts_are_in_the_order_of_the_events() {
    let filter = |_| {
        |event: &Event| {
            // Later events are judged earlier.
            let id = event.id.number();
            std::thread::sleep(Duration::from_micros(500 - 10 * id));
            if id.is_multiple_of(3) { FilterVerdict::Reject } else { FilterVerdict::Accept }
        }
    };
    for threads in [1, 3, 64] {
        let mut filter = ParallelFilter::new((0..threads).map(filter));
        let verdicts = filter.verdicts(&events(20));
        assert_eq!(verdicts.len(), 20);
        for (place, verdict) in verdicts.into_iter().enumerate() {
            assert_eq!(verdict == FilterVerdict::Reject, (place + 1) % 3 == 0, "{threads} threads, {place}");
        }
    }
}

#[test]
fn filters_run_at_the_same_time() {
    // Each filter waits until all four are at work.
    let all = Arc::new(Barrier::new(4));
    let mut filter = ParallelFilter::new((0..4).map(|_| {
        let all = Arc::clone(&all);
        move |_: &Event| {
            all.wait();
            FilterVerdict::Accept
        }
    }));
    assert_eq!(filter.verdicts(&events(4)), vec![FilterVerdict::Accept; 4]);
}

#[test]
fn a_single_event_and_no_filter_need_no_thread() {
    let own = std::thread::current().id();
    let mut filter = ParallelFilter::new((0..2).map(|_| {
        move |_: &Event| {
            assert_eq!(std::thread::current().id(), own);
            FilterVerdict::Reject
        }
    }));
    assert_eq!(filter.verdicts(&events(1)), [FilterVerdict::Reject]);
    assert_eq!(filter.verdict(&events(1)[0]), FilterVerdict::Reject);
    let mut none = ParallelFilter::new(std::iter::empty::<fn(&Event) -> FilterVerdict>());
    assert_eq!(none.verdicts(&events(2)), vec![FilterVerdict::Accept; 2]);
    assert!(none.verdicts(&[]).is_empty());
}

#[test]
#[should_panic(expected = "event 7 cannot be judged")]
fn a_panic_of_a_filter_is_one_of_the_caller() {
    let filter = |_| {
        |event: &Event| -> FilterVerdict {
            assert!(event.id.number() != 7, "event 7 cannot be judged");
            FilterVerdict::Accept
        }
    };
    ParallelFilter::new((0..3).map(filter)).verdicts(&events(20));
}
