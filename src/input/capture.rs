//! [`Capture`]: the frames in the packets that `tcpdump` or Wireshark captured.

mod records;
mod reassembly;
mod packets;
mod in_order;
mod connection;
mod flows;
mod replay;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fmt,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::PathBuf,
    time::Duration,
};

use evb_core::{
    flow::FlowFilter,
    fragment::Fragment,
    framing::{FrameLayout, LayoutError, Losses, OnLoss},
    quantities::counted,
    units::Bytes,
};

use connection::Ready;
pub use flows::FlowPackets;
use flows::Flows;
pub use packets::Flow;
use packets::Packets;
use records::{Broken, Records, is_capture};
pub use replay::CaptureReplay;

/// Reason for which a capture, a file of it, or the rest of a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The declared layout of frames cannot be.
    #[error(
        "frames cannot have the layout that `frame` declares: {0}; correct `frame` of this source's input"
    )]
    Layout(#[from] LayoutError),
    /// The operating system refuses to read the file.
    #[error("cannot read {}: {reason}; give a file that this user can read, or copy this one again", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The file is no capture.
    #[error("{} is neither a pcap nor a pcapng file; capture with `tcpdump -w FILE`, and decompress what is compressed", path.display())]
    NoCapture {
        /// The file.
        path: PathBuf,
    },
    /// A part of the file cannot be.
    #[error("{} is damaged at byte {at}, and what follows is not used; copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage.
        at: usize,
    },
    /// The file ends within a packet.
    #[error("{} ends within the packet at byte {at}, which is not used; end the capture before the file is copied", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// Offset of the packet.
        at: usize,
    },
}

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time at which the frame was complete, since 1970.
    pub time: Duration,
    /// Number of the packet with which the frame was complete, from 1.
    pub packet: u64,
    /// The frame.
    pub fragment: Fragment,
}

impl CapturedFrame {
    /// Returns true if the fragment stands for one that is dropped, because packets of it were
    /// lost.
    pub fn is_stand_in(&self) -> bool {
        self.fragment.lost_packets > 0 && self.fragment.payload.is_empty()
    }
}

/// Counts of the parts of a capture that are used, and of those that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets of all kinds.
    pub packets: u64,
    /// Packets of the flows that are used.
    pub used: u64,
    /// Frames.
    pub frames: u64,
    /// Packets of these flows of which the capture has only a part, or that are damaged.
    pub unusable: u64,
    /// IP datagrams of which the capture has not all fragments.
    pub unfinished: u64,
    /// Bytes of TCP connections that the capture does not have.
    pub missing_bytes: u64,
    /// Bytes of TCP connections that came again.
    pub repeated_bytes: u64,
    /// TCP connections in which no further frame was found.
    pub given_up: u64,
    /// Packets that are neither UDP nor TCP over IP, or belong to rare flows.
    pub others: u64,
    /// A link type of packets that evb does not know.
    pub unknown_link: Option<i32>,
    /// Losses in frames.
    pub losses: Losses,
}

impl CaptureCounts {
    /// Returns true if all bytes of the flows are in frames.
    pub fn is_lossless(&self) -> bool {
        let Self { unusable, unfinished, missing_bytes, given_up, losses, .. } = self;
        unusable + unfinished + missing_bytes + given_up == 0 && losses.is_none()
    }
}

impl fmt::Display for CaptureCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, used, frames, unusable, unfinished, missing_bytes, given_up, losses, .. } = self;
        write!(
            f,
            "{} in {used} of {}; {} incomplete, {} not whole, {missing_bytes} B missing, {} given up; {losses}",
            counted(*frames, "frame"),
            counted(*packets, "packet"),
            counted(*unusable, "packet"),
            counted(*unfinished, "IP datagram"),
            counted(*given_up, "connection"),
        )?;
        match self.unknown_link {
            Some(link) => {
                write!(f, "; packets of the link type {link} are not read: capture on an Ethernet device")
            }
            None => Ok(()),
        }
    }
}

/// The frames in pcap and pcapng files, which are read one after the other.
///
/// Each UDP datagram has whole frames, or a packet of a fragment, as the layout says. The bytes of
/// a TCP connection are brought into their order; where the capture lacks some, the decoder looks
/// for the next frame behind the gap.
///
/// ```
/// use evb::input::{Capture, Extent, FlowFilter, FrameLayout, OnLoss};
/// use evb::units::Bytes;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("run.pcap");
/// # let ip = [
/// #     &[0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..],
/// #     &[0, 24, 0, 25, 0, 16, 0, 0],
/// #     b"twoboard",
/// # ].concat();
/// # let word = |number: u32| number.to_le_bytes();
/// # let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 101].map(word).concat();
/// # std::fs::write(&path, [head, [1, 0, 36, 36].map(word).concat(), ip].concat())?;
/// // One datagram with two frames of four bytes each, from port 24.
/// let layout = FrameLayout::new(0, Extent::Fixed(4));
/// let filter = FlowFilter { from: "24".parse()?, ..FlowFilter::default() };
/// let mut capture = Capture::open([path], filter, &layout, Bytes::kib(1), OnLoss::Drop)?;
/// let mut frames = Vec::new();
/// while let Some(frame) = capture.next_frame()? {
///     frames.push(frame.fragment.payload);
/// }
/// assert_eq!(frames, ["twob", "oard"]);
/// // The usual mistake is not to look at what the capture lacks.
/// assert!(capture.counts().is_lossless());
/// # Ok(())
/// # }
/// ```
pub struct Capture {
    /// The files that are not open yet.
    paths: VecDeque<PathBuf>,
    open: Option<(PathBuf, Records)>,
    packets: Packets,
    flows: Flows,
    ready: Ready,
    /// Time of the last packet.
    time: Duration,
    count: u64,
    frames: u64,
    others: u64,
    has_ended: bool,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The outcome of a step.
#[derive(Debug)]
pub(super) enum CaptureStep {
    Frame(CapturedFrame),
    /// A packet was read.
    Packet,
    End,
}

impl Capture {
    /// Opens a capture of one or several files, which are read in this order. Frames are those in
    /// the flows that the filter takes. Connections are decoded if the layout suits a stream.
    ///
    /// # Errors
    /// The layout cannot be, or a file cannot be read or is no capture.
    pub fn open(
        paths: impl IntoIterator<Item = PathBuf>,
        filter: FlowFilter,
        layout: &FrameLayout,
        max_fragment: Bytes,
        on_loss: OnLoss,
    ) -> Result<Self, CaptureError> {
        let paths: VecDeque<PathBuf> = paths.into_iter().collect();
        for path in &paths {
            if !Self::is_at(path.clone())? {
                return Err(CaptureError::NoCapture { path: path.clone() });
            }
        }
        Ok(Self::of(paths, filter, Flows::of_layout(filter, layout, max_fragment, on_loss)?))
    }

    /// Returns a capture whose only file has these bytes.
    ///
    /// # Errors
    /// The layout cannot be, or the file is no capture.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn of_bytes(
        bytes: Vec<u8>,
        filter: FlowFilter,
        layout: &FrameLayout,
        max_fragment: Bytes,
    ) -> Result<Self, CaptureError> {
        let flows = Flows::of_layout(filter, layout, max_fragment, OnLoss::Drop)?;
        let records =
            Records::new(io::Cursor::new(bytes)).map_err(|broken| broken.in_file(PathBuf::new()))?;
        Ok(Self { open: Some((PathBuf::new(), records)), ..Self::of(VecDeque::new(), filter, flows) })
    }

    /// Creates a capture that reads these files one after the other.
    fn of(paths: VecDeque<PathBuf>, filter: FlowFilter, flows: Flows) -> Self {
        Self {
            paths,
            open: None,
            packets: Packets::new(filter),
            flows,
            ready: Ready::new(),
            time: Duration::ZERO,
            count: 0,
            frames: 0,
            others: 0,
            has_ended: false,
        }
    }

    /// Returns true if there is a file that begins like a pcap or a pcapng file. A pipe is not
    /// opened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_at(path: PathBuf) -> Result<bool, CaptureError> {
        let mut begin = [0; 4];
        let read = |kind: Metadata| match kind.is_file() {
            true => File::open(&path).and_then(|mut file| file.read_exact(&mut begin)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        match fs::metadata(&path).and_then(read) {
            Ok(()) => Ok(is_capture(begin)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(reason) => Err(CaptureError::Unreadable { path, reason }),
        }
    }

    /// Returns the next frame; `None` at the end of the last file.
    ///
    /// # Errors
    /// A file cannot be read to its end. The next call goes on with the next file.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame>, CaptureError> {
        loop {
            match self.step()? {
                CaptureStep::Frame(frame) => return Ok(Some(frame)),
                CaptureStep::Packet => {}
                CaptureStep::End => return Ok(None),
            }
        }
    }

    /// Makes one step: returns a frame that is ready, or decodes bytes that wait, or reads the next
    /// packet.
    pub(super) fn step(&mut self) -> Result<CaptureStep, CaptureError> {
        if let Some((time, fragment)) = self.ready.pop_front() {
            let frame = CapturedFrame { time, packet: self.count, fragment };
            self.frames += u64::from(!frame.is_stand_in());
            return Ok(CaptureStep::Frame(frame));
        }
        if self.flows.advance(&mut self.ready) {
            return Ok(CaptureStep::Packet);
        }
        let Some((path, records)) = &mut self.open else { return self.open_next() };
        let (packets, flows, ready) = (&mut self.packets, &mut self.flows, &mut self.ready);
        let read = records.next(|record| {
            flows.pause(record.time, ready);
            let packet = packets.read(record);
            let is_other = packet.is_none();
            if let Some((flow, content)) = packet {
                flows.take(flow, content, record.time, ready);
            }
            (record.time, is_other)
        });
        match read {
            Ok(Some((time, is_other))) => {
                self.time = time;
                self.count += 1;
                self.others += u64::from(is_other);
            }
            Ok(None) => self.open = None,
            Err(broken) => {
                let path = std::mem::take(path);
                self.open = None;
                return Err(broken.in_file(path));
            }
        }
        Ok(CaptureStep::Packet)
    }

    /// Opens the next file. After the last one, hands out what waits in the flows, and then returns
    /// the end.
    fn open_next(&mut self) -> Result<CaptureStep, CaptureError> {
        if let Some(path) = self.paths.pop_front() {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(reason) => return Err(CaptureError::Unreadable { path, reason }),
            };
            match Records::new(file) {
                Ok(records) => self.open = Some((path, records)),
                Err(broken) => return Err(broken.in_file(path)),
            }
            return Ok(CaptureStep::Packet);
        }
        if self.has_ended {
            return Ok(CaptureStep::End);
        }
        self.has_ended = true;
        // What waited for missing packets is handed out now, by the steps that follow.
        self.packets.reassembly.finish();
        self.flows.finish(self.time, &mut self.ready);
        Ok(CaptureStep::Packet)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> CaptureCounts {
        CaptureCounts {
            packets: self.count,
            used: self.flows.used,
            frames: self.frames,
            unusable: self.flows.unusable,
            unfinished: self.packets.reassembly.unfinished,
            missing_bytes: self.flows.lost.missing,
            repeated_bytes: self.flows.lost.repeated,
            given_up: self.flows.lost.given_up,
            // A fragment of a packet is a part of it, not another packet.
            others: self.others - self.packets.parts + self.flows.uncounted,
            unknown_link: self.packets.unknown_link,
            losses: self.flows.losses(),
        }
    }

    /// Returns the flows of the packets so far, up to 1000.
    pub fn flows(&self) -> impl Iterator<Item = (&Flow, &FlowPackets)> {
        self.flows.by_flow.iter()
    }
}

impl Broken {
    /// Returns the error with the path of the file.
    fn in_file(self, path: PathBuf) -> CaptureError {
        match self {
            Self::NoCapture => CaptureError::NoCapture { path },
            Self::Unreadable => CaptureError::Unreadable {
                path,
                reason: io::Error::other(
                    "its disk did not give a part of it, about which `dmesg` may say more",
                ),
            },
            Self::Damaged(at) => CaptureError::Damaged { path, at },
            Self::CutShort(at) => CaptureError::CutShort { path, at },
        }
    }
}
