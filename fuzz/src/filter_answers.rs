//! Fuzz target for the messages of a filter's process, which may say anything at any time.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use evb::filter::FilterVerdict;
use evb::filter::fuzzing::{FilterTalk, MESSAGE};
use evb_core::id::EventId;

/// Largest number of steps, to limit the time of a fuzz input.
const STEPS: usize = 100;
/// Largest number of events that a worker has at a time.
const EVENTS: usize = 64;
/// Largest number of bytes of a message here.
const LONGEST: usize = 2 * MESSAGE;
/// Size of an answer in bytes.
const ANSWER: usize = 24;
const GREETING: &[u8] = b"EVBF\x01\0\0\0";

/// A step of the test.
#[derive(Arbitrary, Debug)]
pub enum Step {
    /// The worker gets the header of a run.
    Header,
    /// The worker gets events; their ids have gaps of this size.
    Give(u8, u8),
    /// The worker is told what it got.
    Tell,
    /// The worker greets, or answers for that many events as it should. The bits say which it
    /// keeps.
    Answer(u8, u64),
    /// The worker also answers for events of which it was not told.
    Early(u8, u64),
    /// The worker answers for events behind that many others.
    Behind(u8, u8, u64),
    /// The worker answers as it should, but for a byte at this place that is changed in this way.
    Wrong(u8, u64, u16, u8),
    /// The worker sends any bytes.
    Bytes(Vec<u8>),
}

/// The state of a worker by the words of the protocol.
#[derive(Default)]
struct Model {
    is_ready: bool,
    /// Places and ids of the events that wait for a verdict, the oldest first.
    waiting: VecDeque<(usize, u64)>,
    /// Number of those of which the worker knows.
    told: usize,
    events: usize,
    latest: u64,
}

impl Model {
    /// Returns what an honest worker sends.
    fn honest(&self, count: u8, kept: u64) -> Vec<u8> {
        if !self.is_ready {
            return GREETING.to_vec();
        }
        self.answers(0, self.told.min(count.into()), kept)
    }

    /// Returns answers for some of the events that wait.
    fn answers(&self, first: usize, count: usize, kept: u64) -> Vec<u8> {
        let events = self.waiting.iter().skip(first).take(count).enumerate();
        events.flat_map(|(index, (_, id))| answer(*id, kept >> (index % 64) & 1)).collect()
    }

    /// Takes a message; returns the verdicts up to the first fault, and whether there is none.
    fn hear(&mut self, message: &[u8]) -> (Vec<(usize, FilterVerdict)>, bool) {
        let mut verdicts = Vec::new();
        if message.is_empty() || message.len() > MESSAGE {
            return (verdicts, false);
        }
        if !self.is_ready {
            self.is_ready = message == GREETING;
            return (verdicts, self.is_ready);
        }
        for bytes in message.chunks(ANSWER) {
            let next = self.waiting.front().filter(|_| self.told > 0);
            let Some((place, id)) = next.copied() else { return (verdicts, false) };
            let Some(verdict) = verdict_on(id, bytes) else { return (verdicts, false) };
            self.waiting.pop_front();
            self.told -= 1;
            verdicts.push((place, verdict));
        }
        (verdicts, true)
    }
}

/// Returns an answer. Kept events get their id as the tag, unless it is a multiple of 3.
fn answer(event: u64, verdict: u64) -> Vec<u8> {
    let tag = if event.is_multiple_of(3) { 0 } else { verdict * event };
    [event, verdict, tag].map(u64::to_le_bytes).concat()
}

/// Returns the verdict that an answer about an event has; `None` if it is none.
fn verdict_on(event: u64, bytes: &[u8]) -> Option<FilterVerdict> {
    let [id, verdict, tag] = bytes.as_chunks().0 else { return None };
    let is_whole = bytes.len() == ANSWER && u64::from_le_bytes(*id) == event;
    match (u64::from_le_bytes(*verdict), u64::from_le_bytes(*tag)) {
        (0, 0) if is_whole => Some(FilterVerdict::Reject),
        (1, 0) if is_whole => Some(FilterVerdict::Accept),
        (1, tag) if is_whole => Some(FilterVerdict::Tag(tag)),
        _ => None,
    }
}

/// Carries out the steps, up to the first fault of the worker, for which it is killed.
///
/// # Panics
/// Panics if evb takes another verdict than the worker may give, overlooks a fault, finds one where
/// none is, or forgets an event.
pub fn run(steps: Vec<Step>) {
    let (mut talk, mut model) = (FilterTalk::start().expect("a worker"), Model::default());
    for step in steps.into_iter().take(STEPS) {
        let message = match step {
            Step::Header => {
                assert!(talk.give_header().expect("room"));
                continue;
            }
            Step::Give(count, gap) => {
                for _ in 0..usize::from(count).min(EVENTS - model.waiting.len()) {
                    model.latest = model.latest.wrapping_add(u64::from(gap) << 56 | 1);
                    assert!(talk.give(model.events, EventId::new(model.latest)).expect("room"));
                    model.waiting.push_back((model.events, model.latest));
                    model.events += 1;
                }
                continue;
            }
            Step::Tell => {
                talk.tell().expect("a socket with room");
                model.told = model.waiting.len();
                continue;
            }
            Step::Answer(count, kept) => model.honest(count, kept),
            Step::Early(count, kept) => model.answers(0, count.into(), kept),
            Step::Behind(first, count, kept) => model.answers(first.into(), count.into(), kept),
            Step::Wrong(count, kept, place, change) => {
                let mut message = model.honest(count, kept);
                let length = message.len().max(1);
                message.iter_mut().skip(usize::from(place) % length).take(1).for_each(|byte| *byte ^= change);
                message
            }
            Step::Bytes(mut bytes) => {
                bytes.truncate(LONGEST);
                bytes
            }
        };
        let (expected, is_right) = model.hear(&message);
        let (verdicts, heard) = talk.hear(&message);
        assert_eq!(verdicts, expected);
        assert_eq!(heard.is_ok(), is_right, "{heard:?} of {message:?}");
        if let Err(fault) = heard {
            assert!(!fault.is_empty());
            break;
        }
    }
    let left = model.waiting.iter().map(|(place, _)| *place).collect();
    assert_eq!(talk.end(), (left, model.told > 0));
}
