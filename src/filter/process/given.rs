//! [`GivenRecords`]: what a worker has been given, and has not judged yet.

use std::{collections::VecDeque, io, mem, os::fd::OwnedFd, time::Instant};

use evb_core::id::EventId;

use super::{
    messages::{self, Announced},
    ring::EventRing,
};

/// The bytes in a worker's memory, from the giving of a record to the answer for it.
#[derive(Debug)]
pub(super) struct GivenRecords {
    pub(super) ring: EventRing,
    given: VecDeque<Given>,
    /// Number of events in `given`.
    pub(super) load: usize,
    /// Announcements that are not sent yet, and how many events they have.
    message: Vec<u8>,
    untold: usize,
    /// Time since which the worker starts, or judges the oldest event.
    pub(super) since: Instant,
    /// Number of the run whose header the worker has.
    pub(super) header: u64,
}

/// Bytes that a worker has in its memory.
#[derive(Debug)]
enum Given {
    Header,
    /// An event, with its position in the batch.
    Event(usize, EventId),
}

impl GivenRecords {
    pub(super) fn new(now: Instant) -> io::Result<Self> {
        let (ring, given, message) = (EventRing::new()?, VecDeque::new(), Vec::new());
        Ok(Self { ring, given, load: 0, message, untold: 0, since: now, header: 0 })
    }

    /// Writes the header of a run for the worker. Returns false if it has no room yet.
    pub(super) fn give_header(&mut self, number: u64, header: &[u8]) -> io::Result<bool> {
        let Some(offset) = self.ring.write(header)? else { return Ok(false) };
        messages::announce(&mut self.message, Announced::Header, EventId::new(0), offset, header.len());
        self.given.push_back(Given::Header);
        self.header = number;
        Ok(true)
    }

    /// Writes a record for the worker. Returns false if it has no room yet.
    pub(super) fn give(
        &mut self,
        place: usize,
        event: EventId,
        record: &[u8],
        now: Instant,
    ) -> io::Result<bool> {
        let Some(offset) = self.ring.write(record)? else { return Ok(false) };
        messages::announce(&mut self.message, Announced::Event, event, offset, record.len());
        self.given.push_back(Given::Event(place, event));
        if self.load == 0 {
            self.since = now;
        }
        self.load += 1;
        self.untold += 1;
        Ok(true)
    }

    /// Tells the worker what was given to it.
    pub(super) fn tell(&mut self, socket: &OwnedFd) -> io::Result<()> {
        if !self.message.is_empty() {
            messages::tell(socket, &self.message)?;
            self.message.clear();
            self.untold = 0;
        }
        Ok(())
    }

    /// Takes an answer, and returns the event's position in the batch; else what is wrong with it.
    pub(super) fn take_answer(&mut self, event: EventId, now: Instant) -> Result<usize, String> {
        if self.load == self.untold {
            return Err(format!("judged event {event}, and had no event to judge"));
        }
        while let Some(Given::Header) = self.given.front() {
            self.given.pop_front();
            self.ring.free();
        }
        match self.given.front() {
            Some(Given::Event(place, expected)) if *expected == event => {
                let place = *place;
                self.given.pop_front();
                self.ring.free();
                self.load -= 1;
                self.since = now;
                Ok(place)
            }
            Some(Given::Event(_, expected)) => {
                Err(format!("judged event {event}, and event {expected} is the next"))
            }
            _ => Err(format!("judged event {event}, and had no event to judge")),
        }
    }

    /// Returns the event that the worker is judging.
    pub(super) fn judging(&self) -> Option<EventId> {
        let id = |given: &Given| match given {
            Given::Header => None,
            Given::Event(_, id) => Some(*id),
        };
        self.given.iter().find_map(id)
    }

    /// Returns true if the worker knows of an event that it has not judged.
    pub(super) const fn is_judging(&self) -> bool {
        self.load > self.untold
    }

    /// Takes all events back, and returns their positions in the batch, in their order.
    pub(super) fn take_back(&mut self) -> Vec<usize> {
        let place = |given| match given {
            Given::Header => None,
            Given::Event(place, _) => Some(place),
        };
        mem::take(&mut self.given).into_iter().filter_map(place).collect()
    }
}
