//! Fuzz target for the acknowledgements of a consumer to which events are handed over.

use std::{
    collections::BTreeSet,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use evb::sink::fuzzing::{Settled, acknowledgements};
use evb_core::id::EventId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::script::block_on;

/// A consumer that reads everything, and answers with these bytes, a few at a time.
#[derive(Debug)]
struct Consumer {
    answers: Vec<u8>,
    at: usize,
    step: usize,
}

impl AsyncRead for Consumer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = self.answers.len().min(self.at + self.step.min(into.remaining()));
        into.put_slice(&self.answers[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Consumer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len().min(self.step * 16)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Hands events over to a consumer. The first byte is their number, the second one the number of
/// bytes that arrive at once, and the others are the answers.
///
/// # Panics
/// Panics if an event is given up that was not acknowledged, or the other way round, or if a number
/// is taken that is not that of an event.
pub fn check(data: &[u8]) {
    let [count, step, answers @ ..] = data else { return };
    let events = 1..=u64::from(*count);
    let numbers: Vec<u64> =
        answers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let foreign = numbers.iter().position(|number| !events.contains(number));
    let before: BTreeSet<u64> = numbers[..foreign.unwrap_or(numbers.len())].iter().copied().collect();
    let owed: Vec<EventId> = events.clone().filter(|id| !before.contains(id)).map(EventId::new).collect();
    let consumer = Consumer { answers: answers.to_vec(), at: 0, step: usize::from(*step).max(1) };
    let (settled, left) = block_on(acknowledgements(consumer, events.map(EventId::new)));
    assert_eq!(left, owed, "{settled:?}");
    match settled {
        Settled::All => assert!(owed.is_empty()),
        Settled::Closed => assert!(foreign.is_none()),
        Settled::Foreign(number) => assert_eq!(foreign.map(|place| numbers[place]), Some(number)),
        Settled::Other => panic!("no other fault can be here"),
    }
}

/// Returns the seed corpus: all events in order, in another order with repeats, the number of no
/// event, numbers of the other byte order, and a half number.
pub fn seeds() -> Vec<Vec<u8>> {
    let with = |count: u8, step: u8, numbers: &[u64]| {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        [count, step].into_iter().chain(bytes).collect::<Vec<u8>>()
    };
    let half = with(2, 255, &[1, 2]);
    vec![
        with(3, 255, &[1, 2, 3]),
        with(3, 5, &[3, 3, 1, 2, 1]),
        with(3, 255, &[2, 9, 1]),
        with(2, 255, &[1 << 56, 2 << 56]),
        half[..half.len() - 3].to_vec(),
    ]
}
