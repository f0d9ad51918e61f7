//! What lane bytes cost on an Ethernet: in a switch port's buffer, and on the line.
//!
//! There are two measures, never mixed. **Buffer bytes** are the bytes that a port holds: whole L2
//! frames, each at least a buffer cell. **Line bytes** are the bytes that a link carries: L2
//! frames, check sequence, preamble and gap.

use core::{ops::Add, time::Duration};

use evb_core::{
    units::{Bytes, Rate},
    wire::{
        datagram::DATAGRAM_HEADER,
        record::{ANNOUNCEMENT, RECORD_HEADER},
    },
};

/// Ethernet header (14), IPv4 (20), TCP with time stamps (32): RFC 894, RFC 791, RFC 7323.
pub const TCP_FRAME_HEADERS: u64 = 14 + 20 + 32;

/// Ethernet header (14), IPv4 (20), UDP (8: RFC 768), and evb's own header in front of each segment
/// (40). Over IPv6 they are 20 more, and a segment is that much shorter.
pub const UDP_FRAME_HEADERS: u64 = 14 + 20 + 8 + SEGMENT_HEADER;

/// Bytes in front of the lane bytes of each datagram.
const SEGMENT_HEADER: u64 = DATAGRAM_HEADER as u64;

/// The Ethernet header, the only one that does not count towards the MTU.
const OUTSIDE_MTU: u64 = 14;

/// The longest payload of an IPv4 datagram, which bounds all segments of one send together.
const LONGEST_DATAGRAM: u64 = 65_535 - 20 - 8;

/// The most segments that any kernel with segmentation cuts one send into (`UDP_MAX_SEGMENTS`,
/// include/linux/udp.h; newer ones 128).
const MAX_SEGMENTS: u64 = 64;

/// Bytes that one send of TCP takes with segmentation offload, without headers.
const LONGEST_TCP_TRAIN: u64 = 64_000;

/// Check sequence 4, preamble and start delimiter 8, gap 12: IEEE 802.3 clause 4.
pub const LINE_OVERHEAD: u64 = 24;

/// Least room that a packet takes in a port's buffer: common switch chips allocate memory in cells
/// of 80 to 256 bytes.
pub const CELL: Bytes = Bytes::new(256);

/// Each record's header, which goes in front of its lane bytes on a TCP connection.
const RECORD: u64 = RECORD_HEADER as u64;

/// Bytes to reserve with each fragment that is granted: an announcement, and twice as much again,
/// since they come in bursts. With less, 64 sources of 200 B lose some in the simulator.
const ANNOUNCED: u64 = ANNOUNCEMENT as u64 * 3;

/// Divisor of a grant: announcements up to that part of it fit into a port's margin of a tenth.
const MARGIN: u64 = 16;

/// Length of a turn of credit on a fast link: a few times the time that a host takes to wake up for
/// one, so that this time is hidden behind the turn before.
const TURN_TIME: Duration = Duration::from_micros(50);

/// Bytes that a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteMeasure {
    /// Line bytes: L2 frames and 24 more, what a link is busy with.
    #[default]
    Line,
    /// Buffer bytes: L2 frames, what `tc`'s token bucket and a port's memory count.
    Buffer,
}

impl ByteMeasure {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Line, Self::Buffer];

    /// The word that configurations and command lines use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Buffer => "buffer",
        }
    }

    /// The one of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.word() == word)
    }
}

/// Size of one write to a connection on the wire, by both measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireBytes {
    /// L2 frames with preamble, check sequence and gap.
    pub line: Bytes,
    /// L2 frames; small ones as they are, not as cells: what a rate counts.
    pub buffer: Bytes,
}

impl WireBytes {
    /// Returns the size by that measure.
    #[inline]
    pub fn by(self, measure: ByteMeasure) -> Bytes {
        match measure {
            ByteMeasure::Line => self.line,
            ByteMeasure::Buffer => self.buffer,
        }
    }
}

impl Add for WireBytes {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self { line: self.line + other.line, buffer: self.buffer + other.buffer }
    }
}

/// Division of the bytes of one grant into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCost {
    payload: u64,
    /// L2 header and all others of a packet.
    headers: u64,
    /// The header in front of the lane bytes of a train, and what is behind them.
    record: u64,
    /// Bytes of each datagram that are neither lane bytes nor of lower layers.
    segment: u64,
    cell: u64,
}

impl PacketCost {
    /// Over TCP, for links of that MTU (at least 576) and switches of that cell size.
    pub fn tcp(mtu: u32, cell: Bytes) -> Self {
        Self::new(mtu, TCP_FRAME_HEADERS, RECORD, cell)
    }

    /// Returns the cost over UDP on IPv4: every segment has its header in its datagram, so that a
    /// train has none of its own.
    pub fn udp(mtu: u32, cell: Bytes) -> Self {
        Self::new(mtu, UDP_FRAME_HEADERS, 0, cell)
    }

    fn new(mtu: u32, headers: u64, record: u64, cell: Bytes) -> Self {
        let payload = u64::from(mtu.max(576)) + OUTSIDE_MTU - headers;
        let segment = if record == 0 { SEGMENT_HEADER } else { 0 };
        Self { payload, headers, record, segment, cell: cell.count() }
    }

    /// Adds that many bytes behind each train over TCP, or behind each segment over UDP, which
    /// becomes that much shorter.
    pub fn tagged(self, tag: Bytes) -> Self {
        let tag = tag.count();
        if self.announcements_join() {
            return Self { record: self.record + tag, ..self };
        }
        let (payload, headers, segment) = (self.payload - tag, self.headers + tag, self.segment + tag);
        Self { payload, headers, segment, ..self }
    }

    /// Returns the cost on the same links and switches for the supervisor's connection, which
    /// always uses TCP.
    pub fn over_tcp(&self) -> Self {
        let payload = self.payload + self.headers - TCP_FRAME_HEADERS;
        Self { payload, headers: TCP_FRAME_HEADERS, record: RECORD, segment: 0, cell: self.cell }
    }

    /// Returns the bytes that fill one packet: stream bytes over TCP; over UDP lane bytes, the
    /// longest segment.
    pub fn packet_payload(&self) -> Bytes {
        Bytes::new(self.payload)
    }

    /// Bytes that go in front of a train's lane bytes, in its packets: none over UDP.
    pub fn record_header(&self) -> Bytes {
        Bytes::new(self.record)
    }

    /// Returns true if announcements share the packets of the train behind them, as in a stream,
    /// instead of datagrams of their own.
    pub fn announcements_join(&self) -> bool {
        self.record > 0
    }

    /// The most lane bytes that one send with segmentation offload takes.
    pub fn longest_train(&self) -> Bytes {
        if self.announcements_join() {
            return Bytes::new(LONGEST_TCP_TRAIN);
        }
        let datagram = self.payload + self.segment;
        Bytes::new((LONGEST_DATAGRAM / datagram).clamp(1, MAX_SEGMENTS) * self.payload)
    }

    /// Buffer bytes of a full packet.
    pub fn packet_buffer(&self) -> Bytes {
        Bytes::new(self.payload + self.headers)
    }

    /// Line bytes of a full packet.
    pub fn packet_line(&self) -> Bytes {
        Bytes::new(self.payload + self.headers + LINE_OVERHEAD)
    }

    /// A full packet by that measure.
    pub fn packet(&self, measure: ByteMeasure) -> Bytes {
        match measure {
            ByteMeasure::Line => self.packet_line(),
            ByteMeasure::Buffer => self.packet_buffer(),
        }
    }

    /// Converts a rate that counts bytes by one measure to the same rate of full packets by
    /// another; rounded down.
    pub fn rate_in(&self, rate: Rate, from: ByteMeasure, to: ByteMeasure) -> Rate {
        part(rate, self.packet(to), self.packet(from))
    }

    /// Converts a rate to that of the bytes which full packets carry.
    pub fn payload_rate(&self, rate: Rate, from: ByteMeasure) -> Rate {
        part(rate, self.packet_payload(), self.packet(from))
    }

    /// Line bytes per byte of a lane whose packets are full: what fragments pay that share packets.
    pub fn line_factor(&self) -> f64 {
        self.packet_line().count() as f64 / self.payload as f64
    }

    /// Returns the buffer bytes of one grant: `lane` bytes behind their record header, if any, in
    /// full packets and a last one.
    pub fn buffer(&self, lane: Bytes) -> Bytes {
        let stream = lane.count().saturating_add(self.record);
        let (full, rest) = (stream / self.payload, stream % self.payload);
        let last = if rest == 0 { 0 } else { (rest + self.headers).max(self.cell) };
        self.packet_buffer() * full + Bytes::new(last)
    }

    /// Line bytes of the same.
    pub fn line(&self, lane: Bytes) -> Bytes {
        self.wire(lane + Bytes::new(self.record)).line
    }

    /// Returns the buffer bytes for announcing that many lane bytes, in fragments of that size,
    /// beyond a port's margin. Announcements come unrequested: in a steady flow, as many are under
    /// way beside a grant as its bytes will have taken.
    pub fn announcing(&self, lane: Bytes, fragment: u64) -> Bytes {
        let announced = lane.count().saturating_mul(ANNOUNCED).checked_div(fragment).unwrap_or_default();
        Bytes::new(announced.saturating_sub(lane.count() / MARGIN))
    }

    /// Returns the charge of a grant of that many lane bytes: its packets, and the announcements of
    /// fragments of that size beside them.
    pub fn grant(&self, lane: Bytes, fragment: u64) -> Bytes {
        self.buffer(lane) + self.announcing(lane, fragment)
    }

    /// A train of that many lane bytes, and the announcements that leave with it.
    pub fn train_wire(&self, announced: Bytes, lane: Bytes) -> WireBytes {
        if self.announcements_join() {
            return self.wire(announced + Bytes::new(self.record) + lane);
        }
        self.wire(announced) + self.wire(lane)
    }

    /// Returns the size of one write of that many stream bytes, record headers among them, in full
    /// packets and a last one.
    pub fn wire(&self, stream: Bytes) -> WireBytes {
        let packets = stream.count().div_ceil(self.payload);
        let buffer = stream + Bytes::new(self.headers) * packets;
        WireBytes { line: buffer + Bytes::new(LINE_OVERHEAD) * packets, buffer }
    }

    /// Returns the most lane bytes, in full packets, that are at most `wire` bytes by that measure;
    /// at least one packet.
    pub fn train(&self, wire: Bytes, measure: ByteMeasure) -> Bytes {
        let packet = self.packet(measure);
        self.full_packets((wire.count() / packet.count()).max(1))
    }

    /// Returns the usual budget of a port with that buffer and, if known, that rate, behind that
    /// many lanes: the bytes that may be under way at once.
    ///
    /// A tenth of the buffer is left for bytes that enter a port uncharged: acknowledgements and
    /// announcements. More is left for many lanes, which may all announce the same event at once: a
    /// packet for each, at most half of the buffer. Where the link is so fast that turns are longer
    /// than [usual](PacketCost::chunk), a whole turn is left, at most a quarter of the buffer:
    /// kernels mistake reordered packets for a loss, and repeat packets on their own (RFC 8985,
    /// section 3.2).
    pub fn budget(&self, port_buffer: Bytes, link: Option<Rate>, lanes: u64) -> Bytes {
        let (tenth, quarter) = (port_buffer - port_buffer * 9 / 10, port_buffer / 4);
        let announcements = self.buffer(Bytes::new(ANNOUNCEMENT as u64)) * lanes;
        let turn = self.chunk(port_buffer - tenth, link);
        let is_fast = turn > self.chunk(port_buffer - tenth, None);
        let spare = if is_fast { self.buffer(turn).min(quarter).max(tenth) } else { tenth };
        port_buffer - spare.max(announcements.min(port_buffer / 2))
    }

    /// Returns the usual turn of credit within a budget, towards a port of that rate, if known:
    /// full packets.
    ///
    /// Each turn costs both ends a wake-up, so a fast link needs larger turns than a slow one. An
    /// eighth of the budget, at most eleven packets, leaves two turns in the quarter of the budget
    /// that one lane may hold. Where the link carries more than that in 50 µs, a turn is that
    /// amount, up to one train of segmentation offload or an eighth of the budget, whichever is
    /// larger, and never more than half of the budget: one turn arrives while the other is
    /// requested. Turns that leave much of the budget unused are made smaller, so that one more
    /// fits.
    pub fn chunk(&self, budget: Bytes, link: Option<Rate>) -> Bytes {
        let fit = (budget.count() / self.packet_buffer().count()).max(1);
        let usual = (fit / 8).clamp(1, 11);
        let carried = link.map_or(0, |link| (link * TURN_TIME).count() / self.packet_line().count());
        let train = self.longest_train().count() / self.payload;
        let fast = carried.min(train.max(fit / 8)).min(fit / 2);
        if fast <= usual {
            return self.full_packets(usual);
        }
        let is_spare_large = fit % fast > fit / 8;
        self.full_packets(if is_spare_large { fit / (fit / fast + 1) } else { fast })
    }

    /// Returns the usual window within a lane's share of a port's buffer: as many full packets as
    /// fit, at least one.
    pub fn window(&self, share: Bytes) -> Bytes {
        self.train(share, ByteMeasure::Buffer)
    }

    /// The most lane bytes whose grant costs at most `buffer`.
    pub fn affordable(&self, buffer: Bytes) -> Bytes {
        let frame = self.packet_buffer().count();
        let (full, rest) = (buffer.count() / frame, buffer.count() % frame);
        let last = if rest >= self.cell.max(self.headers + 1) { rest - self.headers } else { 0 };
        Bytes::new((full * self.payload + last).saturating_sub(self.record))
    }

    /// Returns the lane bytes that fill that many packets, behind one record header, if there is
    /// any.
    pub fn full_packets(&self, count: u64) -> Bytes {
        Bytes::new(count.saturating_mul(self.payload).saturating_sub(self.record))
    }
}

/// `of` parts in `whole`, which is not zero, of a rate.
fn part(rate: Rate, of: Bytes, whole: Bytes) -> Rate {
    let bits = u128::from(rate.bits_per_second()) * u128::from(of.count()) / u128::from(whole.count());
    Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
