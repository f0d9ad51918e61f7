//! [`Ends`]: a builder's ends of all its lanes, over streams or datagrams.

use std::{io, task::Context, task::Poll};

use evb_core::{id::SourceId, index::LaneIndex, time::Instant, units::Bytes, wire::control::DatagramReport};
use evb_net::{
    handshake::Channel,
    lane::{BuilderEnd, LaneEnd, LaneOptions, Progress, datagrams::BuilderDatagrams},
    pacing::Transport,
    udp,
};
use evb_shaper::{ShapedBuilder, Shaping};
use tokio::net::TcpListener;

/// Socket buffer that a datagram occupies per payload byte if the kernel has not merged it with
/// others (`truesize` of a 1500 B packet is 2304 B), plus 10 % for datagrams without payload.
const TRUE_SIZE: f64 = 2304.0 / 1472.0 * 1.1;

/// A lane that has ended, and the reason.
pub(super) type Ended = (LaneIndex, LaneEnd);

/// The ends of all lanes.
pub(super) enum Ends {
    Stream(Vec<Option<BuilderEnd>>),
    Datagrams(Box<BuilderDatagrams>),
}

impl Ends {
    /// Creates the ends with no lane open. Datagrams arrive at the address and port of `listener`;
    /// `shaping` limits the bytes under way, and is reduced to what the datagram socket's buffer
    /// holds.
    #[cfg_attr(not(feature = "udp"), expect(unreachable_code, reason = "no datagram socket opens"))]
    pub(super) fn new(
        transport: Transport,
        listener: &TcpListener,
        options: &LaneOptions,
        shaping: &mut Shaping,
        sources: &[SourceId],
    ) -> io::Result<Self> {
        if transport == Transport::Tcp {
            return Ok(Self::Stream(sources.iter().map(|_| None).collect()));
        }
        let wanted = shaping.under_way(sources.len());
        let mut options = options.datagrams();
        options.receive_buffer.get_or_insert_with(|| (wanted * 2).max(Bytes::mib(1)));
        let socket = udp::open(listener.local_addr()?, None, &options)?;
        let room = Bytes::new((socket.buffers().receive.count() as f64 * 2.0 / TRUE_SIZE) as u64);
        if let Shaping::Credit { budget, chunk, .. } = shaping
            && *budget > room
        {
            tracing::warn!(
                %budget,
                %room,
                "the builder grants less than its budget, because the socket's receive buffer holds no more; raise the sysctl net.core.rmem_max"
            );
            *chunk = (*chunk).min(room / 4);
            *budget = room;
        } else if wanted > room {
            tracing::warn!(
                may_be_under_way = %wanted,
                %room,
                "the socket's receive buffer may overflow; raise the sysctl net.core.rmem_max"
            );
        }
        Ok(Self::Datagrams(Box::new(BuilderDatagrams::new(socket, sources.to_vec()))))
    }

    pub(super) fn is_open(&self, lane: LaneIndex) -> bool {
        match self {
            Self::Stream(ends) => ends[lane].is_some(),
            Self::Datagrams(ends) => ends.is_open(lane),
        }
    }

    /// Adds a lane whose handshake is over.
    pub(super) fn open(&mut self, lane: LaneIndex, channel: Channel) {
        match self {
            Self::Stream(ends) => ends[lane] = Some(BuilderEnd::new(channel)),
            Self::Datagrams(ends) => ends.open(lane, channel),
        }
    }

    /// Closes a lane, so that its source can no longer use its grants.
    pub(super) fn close(&mut self, lane: LaneIndex) {
        match self {
            Self::Stream(ends) => {
                if let Some(end) = ends[lane].take() {
                    end.abort();
                }
            }
            Self::Datagrams(ends) => ends.close(lane),
        }
    }

    /// Processes the bytes that the sources send, and adds lanes that are over to `ended`. Returns
    /// true if more input may be waiting.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool> {
        let ends = match self {
            Self::Stream(ends) => ends,
            Self::Datagrams(ends) => {
                let note = |lane, end| ended.push((lane, end));
                return Ok(ends.poll_recv(cx, core, now, note)? == Progress::More);
            }
        };
        let mut more = false;
        for (lane, end) in ends.iter_mut().enumerate() {
            let Some(end) = end else { continue };
            match end.poll_read(cx, core, LaneIndex::new(lane), now) {
                Ok(progress) => more |= progress == Progress::More,
                Err(error) => ended.push((LaneIndex::new(lane), error)),
            }
        }
        Ok(more)
    }

    /// Reads all that has arrived by now, if the lanes' timers are evb's own. Returns true if more
    /// input may be waiting.
    pub(super) fn read(
        &mut self,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool> {
        let Self::Datagrams(ends) = self else { return Ok(false) };
        let progress = ends.recv(core, now, |lane, end| ended.push((lane, end)))?;
        Ok(progress == Progress::More)
    }

    /// Queues the state machine's records for a lane's source.
    pub(super) fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant) {
        match self {
            Self::Stream(ends) => {
                if let Some(end) = &mut ends[lane] {
                    end.write_records(core, lane, now);
                }
            }
            Self::Datagrams(ends) => ends.send(core, lane, now),
        }
    }

    /// Writes queued records until the sockets accept no more.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        ended: &mut Vec<Ended>,
    ) {
        let Self::Stream(ends) = self else { return };
        for (lane, end) in ends.iter_mut().enumerate() {
            let Some(end) = end else { continue };
            if let Poll::Ready(Err(error)) = end.poll_flush(cx) {
                ended.push((LaneIndex::new(lane), error));
            }
            end.take_write_sample().into_iter().for_each(|took| core.record_grant_write(took));
        }
    }

    /// Returns the counters of the datagram socket that all lanes share; `None` for streams.
    pub(super) fn report(&mut self) -> Option<DatagramReport> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(ends) => Some(ends.report()),
        }
    }
}

/// Returns the memory that a builder needs, besides its slots, for bytes that arrive out of order:
/// none over TCP, where the kernel holds them.
pub fn out_of_order_memory(transport: Transport, shaping: &Shaping, lanes: usize) -> Bytes {
    match transport {
        Transport::Tcp => Bytes::ZERO,
        Transport::Udp => shaping.out_of_order_memory(lanes),
    }
}
