//! Hosts: one role machine each, driven by its law; the network's streams are its surroundings.
//!
//! A host runs when bytes have arrived or a time has come, after some delay: it reads all that is
//! there, lets the machine catch up with the time, and polls until there is nothing left to do.

mod source;
mod builder;
mod supervisor;

use evb_core::{
    id::Peer,
    time::Instant,
    wire::control::{Control, Hello, Message},
};

use crate::network::{EndIndex, SocketIndex};

pub(crate) use builder::{BuilderHost, take_data};
pub(crate) use source::SourceHost;
pub(crate) use supervisor::SupervisorHost;

/// One end of a lane, as the host holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneEnd {
    Stream(EndIndex),
    Datagrams(SocketIndex),
}

/// A detector of a spinning driver: its machine did all that was to do, and has a timer that is
/// due, again and again.
#[derive(Debug, Default)]
struct Spinning(u32);

impl Spinning {
    /// Returns an error after more than three due timers in a row; a few are legitimate, because
    /// work done at a time may make a timer shorter.
    fn check(&mut self, due: Option<Instant>, now: Instant) -> Result<(), String> {
        self.0 = if due.is_some_and(|at| at <= now) { self.0 + 1 } else { 0 };
        if self.0 > 3 {
            return Err(format!("all is done, and a timer is still due, {} times in a row", self.0));
        }
        Ok(())
    }
}

/// Returns a hello to the supervisor from a peer on this world's clock.
pub(crate) fn hello(from: Peer) -> Hello {
    Hello {
        boot_id: "world".to_owned(),
        software: "evb-sim".to_owned(),
        ..Hello::new(from, Peer::Supervisor)
    }
}

fn control(message: Message) -> Control {
    Control { message: Some(message) }
}
