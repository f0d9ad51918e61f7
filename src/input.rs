//! Origins of fragments other than a program's own readout: generated, replayed, or sent by
//! front-end processes.

mod pattern;
mod board_clock;
mod generator;
mod check;
mod decode;
mod framing;
mod datagrams;
#[cfg(feature = "km3net")]
pub mod km3net;
mod replay;
mod taker;
mod front_end;
#[cfg(feature = "pcap")]
mod capture;
mod triggered;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

#[cfg(feature = "pcap")]
pub use capture::{Capture, CaptureCounts, CaptureError, CaptureReplay, CapturedFrame, Flow, FlowPackets};
pub use check::{CheckContent, ContentCheck, WrongContent};
pub use datagrams::Datagrams;
pub use decode::{Decode, Decoded, Decoders, Follows};
pub use evb_core::flow::{FlowEnd, FlowEndError, FlowFilter, ReplaySpeed};
pub use evb_core::framing::{
    ByteOrder, Extent, FrameField, FrameLayout, Kept, LastPacket, LayoutError, LengthCounts, Losses, Mark,
    OnLoss, PacketLayout,
};
#[cfg(feature = "udp")]
pub use evb_net::udp::Listening;
pub use framing::Framing;
#[cfg(feature = "udp")]
pub use front_end::BoardDatagrams;
pub use front_end::{BoardStream, BoardWriter, FrontEndListener, front_end_memory};
pub use generator::{FragmentSize, Generator};
pub use replay::{Replay, ReplayError};
pub use triggered::push_at_triggers;
