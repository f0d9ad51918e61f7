//! Hosts: one role machine each, driven by its law, with the network's streams as its world.
//!
//! A host runs when bytes came in or a time has come, some delay later: it reads all that is there, lets the machine
//! catch up with the time, and polls until there is nothing left to do.

mod source;
mod builder;
mod supervisor;

use evb_core::{
    id::Peer,
    wire::control::{Control, Hello, control::Message},
};

use crate::network::{EndIndex, SocketIndex};

pub(crate) use builder::BuilderHost;
pub(crate) use source::SourceHost;
pub(crate) use supervisor::SupervisorHost;

/// One end of a lane, as the host holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneEnd {
    Stream(EndIndex),
    Datagrams(SocketIndex),
}

/// A hello to the supervisor from a peer on this world's clock.
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
