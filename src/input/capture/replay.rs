//! [`CaptureReplay`]: replays a capture to a source.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::{flow::ReplaySpeed, framing::Losses, quantities::counted};
use evb_shaper::role::RunStage;
use tokio::{
    task::consume_budget,
    time::{Instant, sleep_until},
};

use super::{Capture, CaptureStep, CapturedFrame};
use crate::{
    input::taker::Taker,
    source::{FrontEnds, PushError, Source},
};

/// Longest time for which a replay waits for the next frame: a clock that was set while the capture
/// ran does not stop the replay.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Largest number of flows that the log names.
const NAMED: usize = 8;

/// Replays a capture to a source, once in each run: the first frame comes when the run begins.
///
/// ```no_run
/// use evb::{
///     input::{
///         Capture, CaptureReplay, Extent, FlowFilter, FrameLayout, OnLoss, ReplaySpeed,
///     },
///     prelude::*,
///     source::{BeforeStart, FrontEnds},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layout = FrameLayout::new(8, Extent::Fixed(1024));
/// let filter = FlowFilter { from: "192.168.10.16:24".parse()?, ..FlowFilter::default() };
/// let paths = ["run.pcap".into()];
/// let capture = Capture::open(paths, filter, &layout, Bytes::kib(2), OnLoss::Drop)?;
/// let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
/// let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
/// config.front_ends = Some(front_ends.clone());
/// let source = Source::connect(config).await?;
/// // The usual mistake: without the source's front ends, the replay does not see the run begin.
/// CaptureReplay::new(capture, ReplaySpeed::Times(1.0), front_ends).serve(source).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CaptureReplay {
    capture: Capture,
    speed: ReplaySpeed,
    front_ends: FrontEnds,
    /// Time of the first frame, and the time at which it was replayed.
    begin: Option<(Duration, Instant)>,
    /// Losses that are counted.
    known: Losses,
    /// Number of frames that the source refused.
    refused: u64,
    /// Reason for which the first of them was refused.
    refusal: Option<PushError>,
}

impl CaptureReplay {
    /// Creates the replay of a capture to a source with these front ends.
    pub fn new(capture: Capture, speed: ReplaySpeed, front_ends: FrontEnds) -> Self {
        Self { capture, speed, front_ends, begin: None, known: Losses::default(), refused: 0, refusal: None }
    }

    /// Replays the capture, until the source's run is over.
    pub async fn serve(self, source: Source) {
        let front_ends = self.front_ends.clone();
        tokio::select! {
            () = answer_requests(&front_ends) => {}
            () = self.serve_to(source.clone()) => {}
            _ = source.finished() => {}
        }
        front_ends.end();
    }

    /// Serves the capture as the front end of the source, from the start of the run to the end of
    /// the files.
    async fn serve_to(mut self, taker: impl Taker) {
        let connected = self.front_ends.connect();
        let mut run = self.front_ends.run();
        // The sender is in `front_ends`, so there is no error.
        let _ = run.wait_for(|run| run.stage != RunStage::Waiting).await;
        let ended = self.replay(&taker).await;
        self.note_end(&taker, ended.is_ok());
        drop(connected);
        // The capture has been read to its end.
        std::future::pending::<()>().await;
    }

    /// Passes on the frames of all files. A file that is damaged costs only the rest of it.
    async fn replay(&mut self, taker: &impl Taker) -> Result<(), PushError> {
        let source = taker.source().number();
        loop {
            match self.capture.step() {
                Ok(CaptureStep::Frame(frame)) => self.pass_on(frame, taker).await?,
                // A file with many other packets must leave time to others.
                Ok(CaptureStep::Packet) => consume_budget().await,
                Ok(CaptureStep::End) => return Ok(()),
                Err(error) => {
                    tracing::warn!(source, %error, "a file of the capture that this source replays is not used to its end, and the replay goes on: {error}");
                }
            }
        }
    }

    /// Pushes a frame when its time has come.
    async fn pass_on(&mut self, frame: CapturedFrame, taker: &impl Taker) -> Result<(), PushError> {
        if let ReplaySpeed::Times(speed) = self.speed {
            let (first, begin) = *self.begin.get_or_insert_with(|| (frame.time, Instant::now()));
            let after = frame.time.saturating_sub(first).as_secs_f64() / speed;
            let latest = Instant::now() + LONGEST_WAIT;
            let due = Duration::try_from_secs_f64(after).ok().and_then(|after| begin.checked_add(after));
            sleep_until(due.unwrap_or(latest).min(latest)).await;
        }
        let losses = self.capture.counts().losses;
        self.front_ends.count_losses(&losses.since(&self.known));
        self.known = losses;
        match taker.take(frame.fragment).await {
            Err(refused @ PushError::Refused(_)) => {
                self.front_ends.count_malformed();
                self.refused += 1;
                self.refusal.get_or_insert(refused);
                Ok(())
            }
            taken => taken,
        }
    }

    /// Says in the log what the capture had.
    fn note_end(&mut self, taker: &impl Taker, is_whole: bool) {
        let (source, counts) = (taker.source().number(), self.capture.counts());
        self.front_ends.count_losses(&counts.losses.since(&self.known));
        if !is_whole {
            return;
        }
        let (frames, packets) = (counts.frames, counts.packets);
        tracing::info!(
            source,
            frames,
            packets,
            "the capture that this source replays is at its end: {counts}; the source makes no more fragments, and a warning follows if anything is missing"
        );
        if counts.used == 0 {
            let flows: Vec<String> =
                self.capture.flows().take(NAMED).map(|(flow, _)| flow.to_string()).collect();
            let flows = if flows.is_empty() { "none".to_owned() } else { flows.join(", ") };
            tracing::warn!(
                source,
                "no packet of the capture is from `from` and to `to` of this source, so it makes no fragments; correct these two keys: the flows of the capture are {flows}"
            );
        } else if !counts.is_lossless() {
            tracing::warn!(
                source,
                "the capture of this source lacks some of what the board sent, or has bytes that are no frame, which are in no event: {counts}; capture with `tcpdump -B 100000 -s 0` before the board connects, and compare what the board sends with `frame` (`evbd frames` decodes the capture)"
            );
        }
        if let Some(reason) = &self.refusal {
            let refused = counted(self.refused, "frame");
            tracing::warn!(
                source,
                "this source did not use {refused} of its capture, which are in no event, and the replay went on: {reason}"
            );
        }
    }
}

/// Answers the source's requests for what has arrived: nothing comes before the run.
async fn answer_requests(front_ends: &FrontEnds) {
    let mut asked = front_ends.requests();
    while asked.changed().await.is_ok() {
        let request = *asked.borrow_and_update();
        front_ends.note_read_out(request);
    }
}
