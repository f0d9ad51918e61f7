use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn only_connections_that_woke_are_taken() {
    let task = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&task));
    let cx = Context::from_waker(&waker);
    let (wakes, mut list) = (Wakes::new(300), Vec::new());
    wakes.take(&cx, &mut list);
    assert_eq!(list, (0..300).collect::<Vec<_>>(), "every connection is polled first");
    wakes.take(&cx, &mut list);
    assert!(list.is_empty() && task.0.load(Ordering::Relaxed) == 0);
    wakes.waker(299).wake_by_ref();
    wakes.waker(7).wake_by_ref();
    wakes.waker(299).wake_by_ref();
    wakes.list(3);
    assert_eq!(task.0.load(Ordering::Relaxed), 3, "each wake wakes the task");
    wakes.take(&cx, &mut list);
    assert_eq!(list, [299, 7, 3]);
    wakes.take(&cx, &mut list);
    assert!(list.is_empty());
}
