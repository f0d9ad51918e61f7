//! Simulated hosts. Each host drives one state machine (source, builder or supervisor) and connects
//! it to the simulated network.
//!
//! A host runs some delay after bytes have arrived or a timer is due. In a run, the host reads all
//! available bytes, handles due timers, and polls the state machine until it has no more output.

mod source;
mod builder;
mod supervisor;

use evb_core::{
    id::Peer,
    index::LaneIndex,
    time::Instant,
    wire::control::{Control, Hello, Message},
};

use crate::network::{EndIndex, Readable, SocketIndex};

pub(crate) use builder::BuilderHost;
pub(crate) use source::SourceHost;
pub(crate) use supervisor::SupervisorHost;

/// A host's end of a lane, for the two transports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneEnd {
    Stream(EndIndex),
    Datagrams(SocketIndex),
}

/// A detector of hosts that would loop for ever, because their state machine still reports a due
/// timer after it has handled everything.
#[derive(Debug, Default)]
struct Spinning(u32);

impl Spinning {
    /// Returns an error after more than three due timers in a row; fewer are legitimate, because
    /// handling one input may move a timer to an earlier time.
    fn check(&mut self, due: Option<Instant>, now: Instant) -> Result<(), String> {
        self.0 = if due.is_some_and(|at| at <= now) { self.0 + 1 } else { 0 };
        if self.0 > 3 {
            return Err(format!(
                "everything is handled, and a timer is still due, {} times in a row",
                self.0
            ));
        }
        Ok(())
    }
}

/// Returns the lanes on which something arrived. A host's first stream leads to the supervisor, and
/// its lanes follow.
fn lanes(readable: &Readable) -> impl Iterator<Item = LaneIndex> {
    let streams = readable.streams.iter().filter_map(|place| place.checked_sub(1));
    streams.chain(readable.sockets.iter().copied()).map(LaneIndex::new)
}

/// Returns the greeting to the supervisor from a peer whose host uses the common simulated clock.
pub(crate) fn hello(from: Peer) -> Hello {
    Hello {
        boot_id: "world".to_owned(),
        // The simulated disks know no run.
        highest_run: 1,
        software: "evb-sim".to_owned(),
        ..Hello::new(from, Peer::Supervisor)
    }
}

fn control(message: Message) -> Control {
    Control { message: Some(message) }
}
