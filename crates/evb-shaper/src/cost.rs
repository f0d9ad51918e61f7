//! The cost of lane bytes on an Ethernet, in a switch port's buffer and on the line.
//!
//! There are two measures of bytes, which must not be mixed. **Buffer bytes** are the bytes that a
//! port holds: whole L2 frames, each of at least one buffer cell. **Line bytes** are the bytes that
//! a link carries: L2 frames, check sequence, preamble and gap.

use core::{ops::Add, time::Duration};

use evb_core::{
    transport::Transport,
    units::{Bytes, Rate},
    wire::{
        datagram::DATAGRAM_HEADER,
        record::{ANNOUNCEMENT, RECORD_HEADER},
        tag::{PARCEL_OVERHEAD, TAG_LENGTH},
    },
};

/// Header bytes of a TCP packet: Ethernet (14), IPv4 (20), TCP with time stamps (32); see RFC 894,
/// RFC 791 and RFC 7323.
pub const TCP_FRAME_HEADERS: u64 = 14 + 20 + 32;

/// Header bytes of a datagram: Ethernet (14), IPv4 (20), UDP (8: RFC 768), and evb's own header in
/// front of each segment (40). Over IPv6, the headers take 20 bytes more, and a segment is 20 bytes
/// shorter.
pub const UDP_FRAME_HEADERS: u64 = datagram_headers(false) + SEGMENT_HEADER;

/// Size of evb's own header in front of the lane bytes of each datagram.
const SEGMENT_HEADER: u64 = DATAGRAM_HEADER as u64;

/// Size of the Ethernet header, the only header that does not count towards the MTU.
const OUTSIDE_MTU: u64 = 14;

/// The longest payload of an IPv4 datagram. This length also limits the total size of the segments
/// in one send with segmentation offload.
const LONGEST_DATAGRAM: u64 = 65_535 - 20 - 8;

/// The largest number of segments into which every kernel with UDP segmentation offload can cut one
/// send (`UDP_MAX_SEGMENTS` in include/linux/udp.h; newer kernels allow 128).
const MAX_SEGMENTS: u64 = 64;

/// Stream bytes that one packet train of TCP segmentation offload carries, without headers.
const LONGEST_TCP_TRAIN: u64 = 64_000;

/// Line bytes of each frame beyond its L2 frame: check sequence 4, preamble and start delimiter 8,
/// gap 12 (IEEE 802.3 clause 4).
pub const LINE_OVERHEAD: u64 = 24;

/// Returns the bytes of the Ethernet, IP and UDP headers in front of the payload of a datagram (RFC
/// 894, 791, 8200, 768).
///
/// ```
/// use evb_shaper::cost::datagram_headers;
///
/// let is_ipv6 = false;
/// let frame = 1000 + datagram_headers(is_ipv6); // bytes of the L2 frame of 1000 bytes of payload
/// assert_eq!(frame, 1042);
/// ```
pub const fn datagram_headers(is_ipv6: bool) -> u64 {
    if is_ipv6 { 14 + 40 + 8 } else { 14 + 20 + 8 }
}

/// Least space that a packet takes in a port's buffer: common switch chips allocate memory in cells
/// of 80 to 256 bytes.
pub const CELL: Bytes = Bytes::new(256);

/// Size of the header that precedes the lane bytes of each record on a TCP connection.
const RECORD: u64 = RECORD_HEADER as u64;

/// Bytes to reserve for announcements with each granted fragment: the size of three announcements,
/// since they come in bursts. With a smaller reserve, 64 sources that send fragments of 200 B lose
/// announcements in the simulator.
const ANNOUNCED: u64 = ANNOUNCEMENT as u64 * 3;

/// Divisor that gives the announcement bytes for which a grant is not charged: a sixteenth of its
/// lane bytes. The tenth of a port's buffer that budgets leave free has room for this many
/// announcement bytes.
const MARGIN: u64 = 16;

/// Duration of one turn of credit on a fast link. A turn lasts a few times as long as a host takes
/// to wake up, so that the wake-up for a turn happens during the turn before.
const TURN_TIME: Duration = Duration::from_micros(50);

/// The kind of bytes that a rate counts.
///
/// ```
/// use evb_core::units::Rate;
/// use evb_shaper::{
///     ByteMeasure,
///     cost::{CELL, PacketCost},
/// };
///
/// // `tc` counts no preambles and gaps, so its rate for a full link is lower.
/// let (cost, link) = (PacketCost::tcp(1500, CELL), Rate::from_bits_per_second(1_000_000_000));
/// let for_tc = cost.rate_in(link, ByteMeasure::Line, ByteMeasure::Buffer);
/// assert_eq!(for_tc.to_string(), "984.3953 Mbit/s");
/// assert_eq!(ByteMeasure::from_word("line"), Some(ByteMeasure::Line));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteMeasure {
    /// Line bytes: L2 frames and 24 bytes more for each, which is all that keeps a link busy.
    #[default]
    Line,
    /// Buffer bytes: L2 frames, as the token bucket of `tc` and a port's buffer count them.
    Buffer,
}

impl ByteMeasure {
    /// All byte measures.
    pub const ALL: [Self; 2] = [Self::Line, Self::Buffer];

    /// Returns the name of the measure in configurations and on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Buffer => "buffer",
        }
    }

    /// Returns the measure with the given name, if there is one.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.word() == word)
    }
}

/// Size on the wire of one write to a connection, by both measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireBytes {
    /// Bytes of the L2 frames with preamble, check sequence and gap.
    pub line: Bytes,
    /// Bytes of the L2 frames. A small frame counts with its own size and not as a whole buffer
    /// cell, since rates count bytes and not cells.
    pub buffer: Bytes,
}

impl WireBytes {
    /// Returns the size by the given measure.
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

/// Parameters of the division of lane bytes into packets, from which their cost follows.
///
/// ```
/// use evb_core::units::Bytes;
/// use evb_shaper::cost::{CELL, PacketCost};
///
/// let cost = PacketCost::tcp(1500, CELL);
/// assert_eq!(cost.packet_line(), Bytes::new(1538));
/// // A fragment of one byte takes a whole cell of the port's buffer.
/// assert_eq!(cost.buffer(Bytes::new(1)), CELL);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCost {
    payload: u64,
    /// Bytes of all headers of a packet, including the L2 header.
    headers: u64,
    /// Bytes that a train adds to its lane bytes over TCP: the record header in front, and the tag
    /// behind; zero over UDP.
    record: u64,
    /// Bytes of each datagram that are neither lane bytes nor headers of lower layers; zero over
    /// TCP.
    segment: u64,
    cell: u64,
}

/// Returns the cost of lane bytes on the wire, including the authentication tags of a protected
/// lane.
pub fn packet_cost(transport: Transport, mtu: u32, cell: Bytes, is_protected: bool) -> PacketCost {
    let cost = PacketCost::of(transport, mtu, cell);
    if !is_protected {
        return cost;
    }
    let tag = match transport {
        Transport::Tcp => PARCEL_OVERHEAD,
        Transport::Udp => TAG_LENGTH,
    };
    cost.tagged(Bytes::new(tag as u64))
}

impl PacketCost {
    /// Returns the cost over that transport, for links with the given MTU and switches with buffer
    /// cells of `cell` bytes.
    pub fn of(transport: Transport, mtu: u32, cell: Bytes) -> Self {
        match transport {
            Transport::Tcp => Self::tcp(mtu, cell),
            Transport::Udp => Self::udp(mtu, cell),
        }
    }

    /// Returns the cost over TCP, for links with the given MTU (at least 576) and switches with
    /// buffer cells of `cell` bytes.
    pub fn tcp(mtu: u32, cell: Bytes) -> Self {
        Self::new(mtu, TCP_FRAME_HEADERS, RECORD, cell)
    }

    /// Returns the cost over UDP on IPv4. Each segment has a header in its datagram, so a train
    /// needs no record header.
    pub fn udp(mtu: u32, cell: Bytes) -> Self {
        Self::new(mtu, UDP_FRAME_HEADERS, 0, cell)
    }

    fn new(mtu: u32, headers: u64, record: u64, cell: Bytes) -> Self {
        let payload = u64::from(mtu.max(576)) + OUTSIDE_MTU - headers;
        let segment = if record == 0 { SEGMENT_HEADER } else { 0 };
        Self { payload, headers, record, segment, cell: cell.count() }
    }

    /// Adds a tag of `tag` bytes behind each train over TCP, or behind each segment over UDP. Over
    /// UDP, the lane bytes of a segment become fewer by the size of the tag.
    pub fn tagged(self, tag: Bytes) -> Self {
        let tag = tag.count();
        if self.announcements_join() {
            return Self { record: self.record + tag, ..self };
        }
        let (payload, headers, segment) = (self.payload - tag, self.headers + tag, self.segment + tag);
        Self { payload, headers, segment, ..self }
    }

    /// Returns the cost of the supervisor's connection, which always uses TCP, on the same links
    /// and switches.
    pub fn over_tcp(&self) -> Self {
        let payload = self.payload + self.headers - TCP_FRAME_HEADERS;
        Self { payload, headers: TCP_FRAME_HEADERS, record: RECORD, segment: 0, cell: self.cell }
    }

    /// Returns the payload of a full packet: stream bytes over TCP, or the lane bytes of the
    /// longest segment over UDP.
    pub fn packet_payload(&self) -> Bytes {
        Bytes::new(self.payload)
    }

    /// Returns the bytes that a train adds to its lane bytes in the same packets; zero over UDP.
    pub fn record_header(&self) -> Bytes {
        Bytes::new(self.record)
    }

    /// Returns true over TCP, where announcements share packets with the train that follows them;
    /// over UDP, announcements go in datagrams of their own.
    pub fn announcements_join(&self) -> bool {
        self.record > 0
    }

    /// Returns the largest number of lane bytes that one send with segmentation offload carries.
    pub fn longest_train(&self) -> Bytes {
        if self.announcements_join() {
            return Bytes::new(LONGEST_TCP_TRAIN);
        }
        let datagram = self.payload + self.segment;
        Bytes::new((LONGEST_DATAGRAM / datagram).clamp(1, MAX_SEGMENTS) * self.payload)
    }

    /// Returns the buffer bytes of a full packet.
    pub fn packet_buffer(&self) -> Bytes {
        Bytes::new(self.payload + self.headers)
    }

    /// Returns the line bytes of a full packet.
    pub fn packet_line(&self) -> Bytes {
        Bytes::new(self.payload + self.headers + LINE_OVERHEAD)
    }

    /// Returns the size of a full packet by the given measure.
    pub fn packet(&self, measure: ByteMeasure) -> Bytes {
        match measure {
            ByteMeasure::Line => self.packet_line(),
            ByteMeasure::Buffer => self.packet_buffer(),
        }
    }

    /// Converts a rate that counts bytes by the measure `from` to the rate that the same full
    /// packets have by the measure `to`; rounded down.
    pub fn rate_in(&self, rate: Rate, from: ByteMeasure, to: ByteMeasure) -> Rate {
        part(rate, self.packet(to), self.packet(from))
    }

    /// Converts a rate that counts bytes by the measure `from` to the rate of payload bytes that
    /// the same full packets carry; rounded down.
    pub fn payload_rate(&self, rate: Rate, from: ByteMeasure) -> Rate {
        part(rate, self.packet_payload(), self.packet(from))
    }

    /// Returns the line bytes per payload byte in full packets: the cost of fragments that share
    /// packets with others.
    pub fn line_factor(&self) -> f64 {
        self.packet_line().count() as f64 / self.payload as f64
    }

    /// Returns the buffer bytes of one train: `lane` bytes and the record header, if any, in full
    /// packets and a last one.
    pub fn buffer(&self, lane: Bytes) -> Bytes {
        let stream = lane.count().saturating_add(self.record);
        let (full, rest) = (stream / self.payload, stream % self.payload);
        let last = if rest == 0 { 0 } else { (rest + self.headers).max(self.cell) };
        self.packet_buffer() * full + Bytes::new(last)
    }

    /// Returns the line bytes of one train of `lane` bytes, with its record header, if any.
    pub fn line(&self, lane: Bytes) -> Bytes {
        self.wire(lane + Bytes::new(self.record)).line
    }

    /// Returns the buffer bytes that announcing `lane` bytes, in fragments of `fragment` bytes,
    /// takes beyond the free margin of a port. Announcements are sent without a grant: in a steady
    /// flow, the data of a grant share the network with announcements of equally many later bytes.
    pub fn announcing(&self, lane: Bytes, fragment: u64) -> Bytes {
        let announced = lane.count().saturating_mul(ANNOUNCED).checked_div(fragment).unwrap_or_default();
        Bytes::new(announced.saturating_sub(lane.count() / MARGIN))
    }

    /// Returns the charge of a grant of `lane` bytes: its packets, and the announcements of as many
    /// bytes in fragments of `fragment` bytes.
    pub fn grant(&self, lane: Bytes, fragment: u64) -> Bytes {
        self.buffer(lane) + self.announcing(lane, fragment)
    }

    /// Returns the wire size of a train of `lane` bytes and of the announcements that leave with
    /// it.
    pub fn train_wire(&self, announced: Bytes, lane: Bytes) -> WireBytes {
        if self.announcements_join() {
            return self.wire(announced + Bytes::new(self.record) + lane);
        }
        self.wire(announced) + self.wire(lane)
    }

    /// Returns the wire size of one write of `stream` stream bytes, including record headers, in
    /// full packets and a last one.
    pub fn wire(&self, stream: Bytes) -> WireBytes {
        let packets = stream.count().div_ceil(self.payload);
        let buffer = stream + Bytes::new(self.headers) * packets;
        WireBytes { line: buffer + Bytes::new(LINE_OVERHEAD) * packets, buffer }
    }

    /// Returns the largest number of lane bytes in full packets whose wire size by the given
    /// measure is at most `wire`; at least one packet.
    pub fn train(&self, wire: Bytes, measure: ByteMeasure) -> Bytes {
        let packet = self.packet(measure);
        self.full_packets((wire.count() / packet.count()).max(1))
    }

    /// Returns the usual budget for a port with the given buffer, rate (if known) and number of
    /// lanes: the bytes that may be under way at once.
    ///
    /// A tenth of the buffer is left for bytes that enter a port uncharged: acknowledgements and
    /// announcements. With many lanes, which may all announce the same event at once, room for a
    /// packet of each lane is left, at most half of the buffer. If the link is so fast that turns
    /// are longer than [usual](PacketCost::chunk), room for a whole turn is left, at most a quarter
    /// of the buffer, because kernels may take reordered packets for lost ones and retransmit them
    /// without a grant (RFC 8985, section 3.2).
    pub fn budget(&self, port_buffer: Bytes, link: Option<Rate>, lanes: u64) -> Bytes {
        let (tenth, quarter) = (port_buffer - port_buffer * 9 / 10, port_buffer / 4);
        let announcements = self.buffer(Bytes::new(ANNOUNCEMENT as u64)) * lanes;
        let turn = self.chunk(port_buffer - tenth, link);
        let is_fast = turn > self.chunk(port_buffer - tenth, None);
        let spare = if is_fast { self.buffer(turn).min(quarter).max(tenth) } else { tenth };
        port_buffer - spare.max(announcements.min(port_buffer / 2))
    }

    /// Returns the usual size of a turn of credit, in lane bytes of full packets, for a budget and
    /// a port of the given rate, if known.
    ///
    /// Each turn costs both ends a wake-up, so a fast link needs larger turns than a slow one. A
    /// turn is usually an eighth of the budget, at most eleven packets, so that the quarter of the
    /// budget that one lane may hold has room for two turns. If the link carries more than the
    /// usual turn in 50 µs, a turn is the amount carried in 50 µs, up to one train of segmentation
    /// offload or an eighth of the budget, whichever is larger. A turn is never more than half of
    /// the budget, so that one turn can arrive while the next is requested. If turns of this size
    /// leave much of the budget unused, they are made smaller, so that one more fits.
    pub fn chunk(&self, budget: Bytes, link: Option<Rate>) -> Bytes {
        let budget_packets = (budget.count() / self.packet_buffer().count()).max(1);
        let usual_turn = (budget_packets / 8).clamp(1, 11);
        let carried_packets = link.map_or(0, |link| (link * TURN_TIME).count() / self.packet_line().count());
        let train_packets = self.longest_train().count() / self.payload;
        let fast_turn = carried_packets.min(train_packets.max(budget_packets / 8)).min(budget_packets / 2);
        if fast_turn <= usual_turn {
            return self.full_packets(usual_turn);
        }
        let is_spare_large = budget_packets % fast_turn > budget_packets / 8;
        self.full_packets(if is_spare_large {
            budget_packets / (budget_packets / fast_turn + 1)
        } else {
            fast_turn
        })
    }

    /// Returns the usual window for a lane's share of a port's buffer, in lane bytes: as many full
    /// packets as fit, at least one.
    pub fn window(&self, share: Bytes) -> Bytes {
        self.train(share, ByteMeasure::Buffer)
    }

    /// Returns the largest number of lane bytes whose grant takes at most `buffer` buffer bytes,
    /// without announcements.
    pub fn affordable(&self, buffer: Bytes) -> Bytes {
        let frame = self.packet_buffer().count();
        let (full, rest) = (buffer.count() / frame, buffer.count() % frame);
        let last = if rest >= self.cell.max(self.headers + 1) { rest - self.headers } else { 0 };
        Bytes::new((full * self.payload + last).saturating_sub(self.record))
    }

    /// Returns the lane bytes of a train of `count` full packets; the train's record header, if
    /// any, is subtracted.
    pub fn full_packets(&self, count: u64) -> Bytes {
        Bytes::new(count.saturating_mul(self.payload).saturating_sub(self.record))
    }
}

/// Returns the rate multiplied by `of / whole`; `whole` is not zero.
fn part(rate: Rate, of: Bytes, whole: Bytes) -> Rate {
    let bits = u128::from(rate.bits_per_second()) * u128::from(of.count()) / u128::from(whole.count());
    Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
