//! [`Dial`]: a connection that the driver has to open.

use crate::{
    id::{Epoch, Peer},
    index::LaneIndex,
    wire::{
        control::{Hello, MalformedMessage, Welcome},
        datagram::Association,
    },
};

/// The other end of a role's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The supervisor.
    Supervisor,
    /// The peer of the lane with that index.
    Lane(LaneIndex),
}

/// A connection that the driver has to open.
#[derive(Clone, Debug, PartialEq)]
pub struct Dial {
    /// The peer to connect to.
    pub target: Target,
    /// The peer's address.
    pub address: String,
    /// The greeting to send.
    pub hello: Box<Hello>,
}

impl Dial {
    /// Returns the association that the answer `welcome` begins, for a lane over datagrams.
    ///
    /// # Errors
    /// Returns an error if the answer has no connection number, or if the greeting was not from a
    /// source to a builder.
    pub fn association(&self, welcome: &Welcome) -> Result<Association, MalformedMessage> {
        let (epoch, connection) = (Epoch::new(welcome.epoch), welcome.checked_connection()?);
        match (self.hello.from_peer(), self.hello.to_peer()) {
            (Some(Peer::Source(source)), Some(Peer::Builder(builder))) => {
                Ok(Association { epoch, source, builder, connection })
            }
            _ => Err(MalformedMessage { message: "Hello", problem: "not of a source to a builder" }),
        }
    }
}
