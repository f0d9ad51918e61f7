//! [`BuilderEnds`]: a builder's ends of all its lanes. Streams and datagrams implement it.

mod streams;
#[cfg(feature = "udp")]
mod datagrams;

use std::{io, task::Context};

use evb_core::{id::SourceId, index::LaneIndex, time::Instant, wire::control::DatagramReport};
use evb_net::{
    handshake::Channel,
    lane::{LaneEnd, LaneOptions},
    pacing::Transport,
};
use evb_shaper::{ShapedBuilder, Shaping, role::Greeting};
use tokio::net::TcpListener;

use streams::Streams;

/// A lane that has ended, and the reason.
pub(super) type Ended = (LaneIndex, LaneEnd);

/// A builder's ends of all its lanes.
pub(super) trait BuilderEnds {
    /// Returns true if a lane is open.
    fn is_open(&self, lane: LaneIndex) -> bool;

    /// Returns the data about a new connection on which the answer to its source depends.
    fn greeting(&self, channel: &Channel) -> Greeting;

    /// Adds a lane whose handshake is over.
    fn open(&mut self, lane: LaneIndex, channel: Channel);

    /// Closes a lane, so that its source can no longer use its grants.
    fn close(&mut self, lane: LaneIndex);

    /// Processes the bytes that the sources send, and adds lanes that are over to `ended`. Returns
    /// true if more input may be waiting.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool>;

    /// Reads all that has arrived by now, if the lanes' timers are evb's own. Returns true if more
    /// input may be waiting.
    fn read(&mut self, core: &mut ShapedBuilder, now: Instant, ended: &mut Vec<Ended>) -> io::Result<bool>;

    /// Queues the state machine's records for a lane's source.
    fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant);

    /// Writes queued records until the sockets accept no more.
    fn poll_flush(&mut self, cx: &mut Context<'_>, core: &mut ShapedBuilder, ended: &mut Vec<Ended>);

    /// Returns the counters of the datagram socket that all lanes share; `None` for streams.
    fn report(&mut self) -> Option<DatagramReport>;
}

/// Creates the ends with no lane open. Datagrams arrive at the address and port of `listener`;
/// `shaping` limits the bytes under way, and is reduced to what the datagram socket's buffer holds.
#[cfg_attr(not(feature = "udp"), expect(unused_variables, reason = "streams need no socket of their own"))]
pub(super) fn create(
    transport: Transport,
    listener: &TcpListener,
    options: &LaneOptions,
    shaping: &mut Shaping,
    sources: &[SourceId],
) -> io::Result<Box<dyn BuilderEnds>> {
    match transport {
        #[cfg(feature = "udp")]
        Transport::Udp => Ok(Box::new(datagrams::create(listener.local_addr()?, options, shaping, sources)?)),
        // Without the feature `udp`, a builder refuses that transport before it listens.
        _ => Ok(Box::new(Streams::new(sources.len()))),
    }
}
