//! Inputs of boards: a board to which a source connects, and boards that connect to a source.

use evb_core::{
    framing::{Extent, FrameLayout, Kept},
    source::BeforeStart,
    units::Bytes,
};

use super::{BoardPlace, Input};
use crate::{endpoint::Endpoint, section::Section};

impl Input {
    /// Returns the layout of the frames that boards send; `None` if there is none.
    pub fn frame(&self) -> Option<&FrameLayout> {
        match self {
            Self::Tcp { frame, .. } | Self::Unix { frame, .. } => frame.as_ref(),
            Self::Board { frame, .. } | Self::Capture { frame, .. } => Some(frame),
            Self::Generator { .. } | Self::Replay { .. } => None,
        }
    }

    /// Returns the size of the receive buffer for datagrams of boards; `None` if none come.
    pub fn receive_buffer(&self) -> Option<Bytes> {
        match self {
            Self::Board { place: BoardPlace::Udp(place), .. } => Some(place.receive_buffer),
            _ => None,
        }
    }

    /// Returns the size of fragments that are frames of one size.
    pub(crate) fn fixed_size(&self) -> Option<Bytes> {
        let frame = self.frame()?;
        let Extent::Fixed(payload) = frame.extent else { return None };
        let beside_payload = match frame.keep {
            Kept::Frame => u64::from(frame.header) + u64::from(frame.trailer),
            Kept::Payload => 0,
        };
        Some(Bytes::new(u64::from(payload) + beside_payload))
    }
}

/// Returns the input of a source that connects to a board over TCP.
pub(super) fn connected(
    source: &Section<'_>,
    connect: Option<Endpoint>,
    frame: Option<FrameLayout>,
    before_start: Option<BeforeStart>,
) -> Option<Input> {
    if source.has("input.listen") {
        let reason =
            "`connect` is given too, but a source either listens for front ends or connects to one board";
        source.refuse("input.listen", reason, "remove `listen`, or `connect`");
    }
    if source.has("input.front_ends") {
        let reason = "a source with `connect` has only the one board to which it connects";
        source.refuse("input.front_ends", reason, "remove `front_ends`, which is for `listen`");
    }
    if !source.has("input.frame") {
        source.refuse_lack("input.frame");
    }
    let connect = connect?;
    source.allow_peer_address("input.connect", &connect);
    Some(Input::Board { place: BoardPlace::Tcp(connect), before_start, frame: frame? })
}

/// Refuses several boards whose frames only the order of arrival would number.
pub(super) fn check_front_ends(source: &Section<'_>, front_ends: u32, frame: Option<&FrameLayout>) {
    if front_ends != 1 && frame.is_some_and(|frame| frame.counter.is_none()) {
        let reason =
            "frames without a counter are numbered as they arrive, so they must all come from one front end";
        let remedy = "remove `front_ends`, or add counter = { at = 4, bytes = 4 } to the frame";
        source.refuse("input.front_ends", reason, remedy);
    }
}
