//! A builder's ends of lanes over datagrams: one socket for all lanes.

use std::{io, net::SocketAddr, task::Context};

use evb_core::{id::SourceId, index::LaneIndex, time::Instant, units::Bytes, wire::control::DatagramReport};
use evb_net::{
    handshake::{Channel, round_trip},
    lane::{
        LaneOptions, Progress,
        datagrams::{BuilderDatagrams, draw_connection},
    },
    udp,
};
use evb_shaper::{ShapedBuilder, Shaping, role::Greeting};

use super::{BuilderEnds, Ended};

/// Socket buffer that a datagram occupies per payload byte if the kernel has not merged it with
/// others (`truesize` of a 1500 B packet is 2304 B), plus 10 % for datagrams without payload.
const TRUE_SIZE: f64 = 2304.0 / 1472.0 * 1.1;

/// Opens the socket at `address`, and reduces `shaping` to what the socket's buffer holds.
pub(super) fn create(
    address: SocketAddr,
    options: &LaneOptions,
    shaping: &mut Shaping,
    sources: &[SourceId],
) -> io::Result<BuilderDatagrams> {
    let wanted = shaping.under_way(sources.len());
    let mut options = options.datagrams();
    let asked = *options.receive_buffer.get_or_insert_with(|| (wanted * 2).max(Bytes::mib(1)));
    let socket = udp::open(address, None, &options)?;
    let granted = socket.buffers().receive;
    let room = Bytes::new((granted.count() as f64 * 2.0 / TRUE_SIZE) as u64);
    let remedy = if granted < asked {
        format!(
            "as root, run `sysctl -w net.core.rmem_max={}` on this host, then start this builder again",
            asked.count()
        )
    } else {
        "raise `receive_buffer` of [network], then start this builder again".to_owned()
    };
    if let Shaping::Credit { budget, chunk, .. } = shaping
        && *budget > room
    {
        tracing::warn!(
            %budget,
            %room,
            "this builder lets only {room} be under way to it, less than its budget of {budget}, because the receive buffer of its UDP socket holds no more; this may cost throughput, but no data; {remedy}"
        );
        *chunk = (*chunk).min(room / 4);
        *budget = room;
    } else if wanted > room {
        tracing::warn!(
            may_be_under_way = %wanted,
            %room,
            "the receive buffer of this builder's UDP socket may overflow, because it holds {room}, and {wanted} may be under way, so sources may have to send data again, which costs throughput; {remedy}"
        );
    }
    Ok(BuilderDatagrams::new(socket, sources.to_vec()))
}

impl BuilderEnds for BuilderDatagrams {
    fn is_open(&self, lane: LaneIndex) -> bool {
        self.is_open(lane)
    }

    fn greeting(&self, channel: &Channel) -> Greeting {
        Greeting { connection: draw_connection(), round_trip: round_trip(channel.as_ref()) }
    }

    fn open(&mut self, lane: LaneIndex, channel: Channel) {
        self.open(lane, channel);
    }

    fn close(&mut self, lane: LaneIndex) {
        self.close(lane);
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut ShapedBuilder,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) -> io::Result<bool> {
        let progress = self.poll_recv(cx, core, now, |lane, end| ended.push((lane, end)))?;
        Ok(progress == Progress::More)
    }

    fn read(&mut self, core: &mut ShapedBuilder, now: Instant, ended: &mut Vec<Ended>) -> io::Result<bool> {
        let progress = self.recv(core, now, |lane, end| ended.push((lane, end)))?;
        Ok(progress == Progress::More)
    }

    fn write(&mut self, lane: LaneIndex, core: &mut ShapedBuilder, now: Instant) {
        self.send(core, lane, now);
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, _: &mut ShapedBuilder, _: &mut Vec<Ended>) {
        // `write` sends each datagram at once.
    }

    fn report(&mut self) -> Option<DatagramReport> {
        Some(self.report())
    }
}
