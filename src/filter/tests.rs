use std::sync::{Arc, Mutex};

use evb_core::{event::Event, id::EventId};

use super::{Filter, FilterVerdict};

/// Rejects some events, and notes which events it was given together.
struct Noting {
    rejected: &'static [u64],
    given: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Filter for Noting {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        let is_rejected = self.rejected.contains(&event.id.number());
        if is_rejected { FilterVerdict::Reject } else { FilterVerdict::Accept }
    }

    fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
        self.given.lock().unwrap().push(events.iter().map(|event| event.id.number()).collect());
        events.iter().map(|event| self.verdict(event)).collect()
    }
}

#[test]
fn each_filter_of_several_gets_together_what_those_before_have_accepted() {
    let given = [(); 2].map(|()| Arc::<Mutex<Vec<Vec<u64>>>>::default());
    let filter = |rejected, given: &Arc<_>| -> Box<dyn Filter> {
        Box::new(Noting { rejected, given: Arc::clone(given) })
    };
    let mut filters = vec![filter(&[1, 4, 5], &given[0]), filter(&[6], &given[1])];
    let event = |id| {
        let mut event = Event::default();
        event.id = EventId::new(id);
        event
    };
    let verdicts = filters.verdicts(&(1..=8).map(event).collect::<Vec<_>>());
    let kept = (1..).zip(verdicts).filter(|(_, verdict)| *verdict == FilterVerdict::Accept);
    assert_eq!(kept.map(|(id, _)| id).collect::<Vec<u64>>(), [2, 3, 7, 8]);
    assert_eq!(*given[0].lock().unwrap(), [[1, 2, 3, 4, 5, 6, 7, 8]]);
    assert_eq!(*given[1].lock().unwrap(), [vec![2, 3], vec![6, 7, 8]]);
    assert!(filters.verdicts(&[]).is_empty());
}
