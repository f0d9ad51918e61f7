//! Access to the answers of filter processes for the fuzz targets; only with the feature `fuzzing`.

use std::{io, os::fd::OwnedFd, time::Instant};

use evb_core::id::EventId;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{
    super::FilterVerdict,
    given::GivenRecords,
    messages::{ANSWER, Heard, QUEUE, answers, channel, check_greeting, hear},
};

/// Limit of the size of a worker's message, in bytes.
pub const MESSAGE: usize = QUEUE * ANSWER;

/// A worker without a process: the target gives it events, and sends its messages.
///
/// ```
/// let mut worker = evb::filter::fuzzing::FilterTalk::start()?;
/// assert!(worker.hear(b"no greeting").1.is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FilterTalk {
    given: GivenRecords,
    ours: OwnedFd,
    theirs: OwnedFd,
    is_ready: bool,
}

impl FilterTalk {
    /// Starts a worker.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start() -> io::Result<Self> {
        let (ours, theirs) = channel()?;
        Ok(Self { given: GivenRecords::new(Instant::now())?, ours, theirs, is_ready: false })
    }

    /// Gives the worker the header of a run.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn give_header(&mut self) -> io::Result<bool> {
        self.given.give_header(1, b"header")
    }

    /// Gives the worker an event, whose place in its batch is stated.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn give(&mut self, place: usize, event: EventId) -> io::Result<bool> {
        self.given.give(place, event, b"record", Instant::now())
    }

    /// Tells the worker what was given to it.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn tell(&mut self) -> io::Result<()> {
        self.given.tell(&self.ours)?;
        while recv(&self.theirs, &mut [0; 4096][..], RecvFlags::DONTWAIT).is_ok() {}
        Ok(())
    }

    /// Lets the worker send a message. Returns its verdicts up to the first fault, each with the
    /// place of the event, and the fault.
    ///
    /// # Panics
    /// Panics if the message cannot be sent.
    pub fn hear(&mut self, message: &[u8]) -> (Vec<(usize, FilterVerdict)>, Result<(), String>) {
        send(&self.theirs, message, SendFlags::empty()).expect("a message in an empty socket");
        let (mut verdicts, mut buffer) = (Vec::new(), [0; MESSAGE]);
        let heard = match hear(&self.ours, &mut buffer) {
            Ok(Heard::Message(message)) => message,
            other => return (verdicts, Err(format!("{other:?}"))),
        };
        assert_eq!(heard, message);
        if !self.is_ready {
            let greeted = check_greeting(heard);
            self.is_ready = greeted.is_ok();
            return (verdicts, greeted);
        }
        for answer in answers(heard) {
            let taken = answer
                .and_then(|(event, verdict)| Ok((self.given.take_answer(event, Instant::now())?, verdict)));
            match taken {
                Ok(verdict) => verdicts.push(verdict),
                Err(fault) => return (verdicts, Err(fault)),
            }
        }
        (verdicts, Ok(()))
    }

    /// Returns the places of the events that have no verdict, and whether one is being judged.
    pub fn end(mut self) -> (Vec<usize>, bool) {
        let is_judging = self.given.is_judging();
        (self.given.take_back(), is_judging)
    }
}
