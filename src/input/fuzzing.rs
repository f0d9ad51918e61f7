//! Access to the inputs for the fuzz targets; only with the feature `fuzzing`.

use std::{
    future::{Future, ready},
    sync::{Arc, Mutex, PoisonError},
};

use evb_core::{flow::FlowFilter, fragment::Fragment, framing::FrameLayout, id::SourceId, units::Bytes};
use tokio::io::AsyncRead;

use super::{
    Capture, CaptureCounts, CaptureError, Framing,
    front_end::{receive, receive_frames},
    taker::Taker,
};
use crate::source::{BeforeStart, FrontEnds, PushError};

/// Returns all fragments of one front end's connection, and the outcome: the number of fragments,
/// or the reason for which the connection is closed.
pub async fn front_end(
    stream: impl AsyncRead + Unpin + Send,
    max_fragment: Bytes,
) -> (Vec<Fragment>, Result<u64, String>) {
    let heap = Heap::default();
    let ended = receive(stream, max_fragment, &heap, &FrontEnds::new(BeforeStart::Keep, 0)).await;
    let taken = std::mem::take(&mut *heap.0.lock().unwrap_or_else(PoisonError::into_inner));
    (taken, ended.map_err(|error| error.to_string()))
}

/// Returns all fragments of one board's connection, the number of bytes in no frame, and the
/// outcome: the number of fragments, or the reason for which the connection is closed.
pub async fn stream_frames(
    stream: impl AsyncRead + Unpin + Send,
    framing: Framing,
) -> (Vec<Fragment>, u64, Result<u64, String>) {
    let (heap, front_ends) = (Heap::default(), FrontEnds::new(BeforeStart::Keep, 1));
    let ended = receive_frames(stream, Box::new(framing), &heap, &front_ends).await;
    let taken = std::mem::take(&mut *heap.0.lock().unwrap_or_else(PoisonError::into_inner));
    (taken, front_ends.counts().losses.garbage_bytes, ended.map_err(|error| error.to_string()))
}

/// Returns all fragments of a capture whose only file has these bytes, and the counts.
///
/// # Errors
/// The layout cannot be, or the bytes are no capture.
pub fn capture(
    bytes: &[u8],
    layout: &FrameLayout,
    max_fragment: Bytes,
) -> Result<(Vec<Fragment>, CaptureCounts), CaptureError> {
    let mut capture = Capture::of_bytes(bytes.to_vec(), FlowFilter::default(), layout, max_fragment)?;
    let mut fragments = Vec::new();
    loop {
        match capture.next_frame() {
            Ok(Some(frame)) => fragments.push(frame.fragment),
            Ok(None) => return Ok((fragments, capture.counts())),
            // The rest of the file is not used.
            Err(_) => {}
        }
    }
}

#[derive(Clone, Default)]
struct Heap(Arc<Mutex<Vec<Fragment>>>);

impl Taker for Heap {
    fn source(&self) -> SourceId {
        SourceId::new(1)
    }

    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fragment);
        ready(Ok(()))
    }
}
