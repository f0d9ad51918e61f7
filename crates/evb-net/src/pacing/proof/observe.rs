//! Test datagrams whose departure is observed: at the peer if the peer's address belongs to this
//! host, else in the kernel, where they leave the queueing discipline.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    time::Duration,
};

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use socket2::SockRef;

use super::Trial;
use crate::{
    clock,
    pacing::{executor::Executor, receiver::GapReceiver, sender::DatagramSender, sender::SendError},
};

/// Port of the discard service (RFC 863), which drops everything that it receives.
const DISCARD: u16 = 9;

/// Longest delay of the first datagram, which waits for the peer's link address.
const FIRST: Duration = Duration::from_millis(50);

/// A sequence of test datagrams on a path, and the observer of their departures.
pub(super) struct Observed {
    pub(super) sender: DatagramSender,
    receiver: Option<GapReceiver>,
    /// Departure times that were observed, by the number of the datagram.
    seen: Vec<Option<Instant>>,
    room: Vec<u8>,
}

impl Observed {
    /// Opens the sender and the observer, and sends one datagram ahead, which resolves the peer's
    /// link address.
    pub(super) fn open(trial: &Trial, executor: &dyn Executor, rate: Option<Rate>) -> io::Result<Self> {
        let buffer = Some(Bytes::mib(2));
        let receiver = GapReceiver::bind((trial.to, trial.port.unwrap_or(0)).into(), buffer).ok();
        let peer: SocketAddr = match &receiver {
            Some(receiver) => receiver.local_addr()?,
            None => (trial.to, trial.port.unwrap_or(DISCARD)).into(),
        };
        let mut sender = DatagramSender::connect((trial.from, 0).into(), peer, executor, rate, buffer)?;
        if let Some(priority) = trial.priority {
            set_priority(&sender, priority)?;
        }
        if receiver.is_none() {
            sender.stamp_departures()?;
        }
        let mut observed = Self { sender, receiver, seen: Vec::new(), room: vec![0; 1 << 14] };
        let at = clock::now() + Duration::from_millis(2);
        observed.send(8, Some(at)).map_err(io::Error::other)?;
        observed.wait(1, at + FIRST)?;
        Ok(observed)
    }

    /// Sends one datagram of `length` bytes, at least 8, which begins with its number.
    pub(super) fn send(&mut self, length: usize, at: Option<Instant>) -> Result<(), SendError> {
        let number = self.seen.len() as u64;
        let room = self.room.get_mut(..length).unwrap_or_default();
        if let Some(head) = room.first_chunk_mut::<8>() {
            *head = number.to_le_bytes();
        }
        let sent = match self.sender.send(&[IoSlice::new(room)], None, at) {
            // If no socket listens at the peer's port, the error is the peer's reply to an earlier
            // datagram, and the new datagram has not left yet.
            Err(SendError::Io(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.sender.send(&[IoSlice::new(room)], None, at)
            }
            sent => sent,
        };
        sent?;
        self.seen.push(None);
        Ok(())
    }

    /// Waits until `count` datagrams were seen, including the datagram sent ahead, or until the
    /// time `until`.
    pub(super) fn wait(&mut self, count: usize, until: Instant) -> io::Result<()> {
        loop {
            self.look(Duration::from_millis(1))?;
            let seen = self.seen.iter().flatten().count();
            if seen >= count || clock::now() >= until {
                return Ok(());
            }
        }
    }

    /// Notes the departures that have been observed, and waits for one more, for at most
    /// `patience`.
    pub(super) fn look(&mut self, patience: Duration) -> io::Result<()> {
        self.sender.collect()?;
        let Some(receiver) = &mut self.receiver else {
            for entry in self.sender.departed() {
                let slot = usize::try_from(entry.train).ok().and_then(|number| self.seen.get_mut(number));
                if let Some(slot) = slot {
                    *slot = Some(entry.at);
                }
            }
            std::thread::sleep(patience);
            return Ok(());
        };
        let Some(receipt) = receiver.receive(patience)? else { return Ok(()) };
        let number = receiver.payload(&receipt).first_chunk().map(|head| u64::from_le_bytes(*head));
        let slot = number.and_then(|number| self.seen.get_mut(usize::try_from(number).ok()?));
        if let Some(slot) = slot {
            *slot = Some(receipt.at);
        }
        Ok(())
    }

    /// Returns the observed departures, without the departure of the datagram sent ahead.
    pub(super) fn departures(&self) -> &[Option<Instant>] {
        self.seen.get(1..).unwrap_or_default()
    }

    /// Names the observer of the departures.
    pub(super) fn witness(&self) -> &'static str {
        if self.receiver.is_some() { "at the peer" } else { "in the kernel" }
    }
}

#[cfg(target_os = "linux")]
fn set_priority(sender: &DatagramSender, priority: u32) -> io::Result<()> {
    SockRef::from(sender).set_priority(priority)
}

#[cfg(not(target_os = "linux"))]
fn set_priority(_: &DatagramSender, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
