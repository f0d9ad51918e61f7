//! [`Records`]: the packets of one pcap or pcapng file, as they were on the wire.

#[cfg(test)]
mod tests;

use std::{io::Read, time::Duration};

use pcap_parser::{
    Block, Linktype, PcapBlockOwned, PcapError, create_reader,
    traits::{PcapNGPacketBlock as _, PcapReaderIterator},
};

/// Room for the blocks of a file at first: packets have up to 256 KiB (`MAXIMUM_SNAPLEN` of
/// tcpdump).
const FIRST_ROOM: usize = 256 << 10;

/// Most room for the blocks of a file: other blocks of pcapng files may be larger than packets.
const MOST_ROOM: usize = 4 << 20;

/// Largest number of interfaces of a file.
const MAX_INTERFACES: usize = 4096;

/// A packet of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Record<'a> {
    /// Time of the capture since 1970.
    pub(super) time: Duration,
    pub(super) link: Linktype,
    pub(super) bytes: &'a [u8],
    /// True if the capture has not the whole packet.
    pub(super) is_cut: bool,
}

/// Reason for which the rest of a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It is no capture at all.
    NoCapture,
    /// The operating system refuses to read.
    Unreadable,
    /// A block cannot be, at this offset.
    Damaged(usize),
    /// The file ends within a block that begins at this offset.
    CutShort(usize),
}

/// Returns true if a file that begins with these bytes is a pcap or a pcapng file.
pub(super) fn is_capture(begin: [u8; 4]) -> bool {
    let number = u32::from_le_bytes(begin);
    matches!(number, 0x0a0d_0d0a | 0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34 | 0xd4c3_b2a1 | 0x4d3c_b2a1)
}

/// An interface of the host that captured.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    /// Largest part of a packet that was captured; 0: no limit.
    most: u32,
    /// Number of time units in a second.
    resolution: u128,
    /// Seconds that are added to all times.
    offset: i64,
}

/// The packets of a file.
pub(super) struct Records {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    room: usize,
    /// Time of the last packet; a simple packet of a pcapng file has none.
    last: Duration,
}

impl Records {
    pub(super) fn new(file: impl Read + Send + 'static) -> Result<Self, Broken> {
        let reader = create_reader(FIRST_ROOM, file).map_err(|error| match error {
            PcapError::ReadError => Broken::Unreadable,
            _ => Broken::NoCapture,
        })?;
        Ok(Self { reader, interfaces: Vec::new(), room: FIRST_ROOM, last: Duration::ZERO })
    }

    /// Passes the next packet to `with`, and returns the outcome; `None` at the end of the file.
    pub(super) fn next<T>(&mut self, mut with: impl FnMut(Record<'_>) -> T) -> Result<Option<T>, Broken> {
        loop {
            let at = self.reader.consumed();
            let before = self.reader.data().len();
            match self.reader.next() {
                Ok((length, block)) => {
                    let record = record(&block, &mut self.interfaces, self.last);
                    let outcome = record.map(|record| {
                        self.last = record.time;
                        with(record)
                    });
                    drop(block);
                    self.reader.consume(length);
                    if outcome.is_some() {
                        return Ok(outcome);
                    }
                }
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::UnexpectedEof) => return Err(Broken::CutShort(at)),
                Err(PcapError::Incomplete(_)) => {
                    self.reader.refill().map_err(|_| Broken::Unreadable)?;
                    // Nothing was added to the block, though the file goes on.
                    if self.reader.data().len() == before && !self.reader.reader_exhausted() {
                        return Err(Broken::Damaged(at));
                    }
                }
                Err(PcapError::BufferTooSmall) if self.room < MOST_ROOM => {
                    self.room *= 2;
                    self.reader.grow(self.room);
                }
                Err(_) => return Err(Broken::Damaged(at)),
            }
        }
    }
}

/// Returns the packet of a block, if it has one, or notes the interface that it describes.
fn record<'a>(
    block: &'a PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    last: Duration,
) -> Option<Record<'a>> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            // The upper bits tell of the frame check sequence, which the length of an IP packet
            // leaves out.
            let link = Linktype(header.network.0 & 0xffff);
            interfaces.push(Interface { link, most: header.snaplen, resolution, offset: 0 });
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first()?;
            let units = u128::from(packet.ts_sec) * interface.resolution + u128::from(packet.ts_usec);
            let time = interface.time(units);
            let is_cut = packet.caplen < packet.origlen;
            Some(Record { time, link: interface.link, bytes: packet.data, is_cut })
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
            if interfaces.len() < MAX_INTERFACES {
                let (link, most, offset) = (block.linktype, block.snaplen, block.if_tsoffset);
                interfaces.push(Interface { link, most, resolution: resolution(block.if_tsresol), offset });
            }
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
            let interface = interfaces.get(block.if_id as usize)?;
            let time = interface.time(u128::from(block.ts_high) << 32 | u128::from(block.ts_low));
            let bytes = block.packet_data();
            Some(Record { time, link: interface.link, bytes, is_cut: bytes.len() < block.origlen as usize })
        }
        PcapBlockOwned::NG(Block::SimplePacket(block)) => {
            let interface = interfaces.first()?;
            let most = if interface.most == 0 { u32::MAX } else { interface.most } as usize;
            let bytes = &block.data[..block.data.len().min(block.origlen as usize).min(most)];
            let is_cut = bytes.len() < block.origlen as usize;
            Some(Record { time: last, link: interface.link, bytes, is_cut })
        }
        PcapBlockOwned::NG(_) => None,
    }
}

impl Interface {
    fn time(&self, units: u128) -> Duration {
        let (seconds, part) = (units / self.resolution, units % self.resolution);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX).saturating_add_signed(self.offset);
        Duration::new(seconds, (part * 1_000_000_000 / self.resolution) as u32)
    }
}

/// Returns the number of time units in a second (pcapng, option `if_tsresol`).
fn resolution(exponent: u8) -> u128 {
    let power = u32::from(exponent & 0x7f);
    let units = if exponent & 0x80 == 0 { 10_u128.checked_pow(power) } else { 2_u128.checked_pow(power) };
    // Finer units would overflow: times have 64 bits.
    units.filter(|units| *units <= 1 << 64).unwrap_or(1 << 64)
}
