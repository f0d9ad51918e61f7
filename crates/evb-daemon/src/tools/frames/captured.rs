//! The frames in a capture of packets, and the flows that were used or left alone.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, io, process::ExitCode};

use evb::input::{Capture, Flow, FlowEnd, FlowFilter, FlowPackets, OnLoss};
use evb_config::{BoardPlace, Endpoint, Input, SourceEntry};
use evb_core::quantities::counted;

use super::{FramesArguments, Listing};
use crate::tools::{nothing_done, print};

/// Number of flows that are left alone and named.
const NAMED: usize = 10;

/// Decodes a capture of packets as the input of the source would.
pub(super) fn decode(arguments: &FramesArguments, entry: &SourceEntry) -> ExitCode {
    let Some(frame) = entry.input.frame() else { return nothing_done(&"the source has no `frame`") };
    let ((filter, on_loss), paths) = (taken(&entry.input), [arguments.capture.clone()]);
    let capture = match Capture::open(paths, filter, frame, entry.max_fragment, on_loss) {
        Ok(capture) => capture,
        Err(error) => return nothing_done(&error),
    };
    print(|out| Listing::begin(arguments, entry, "in packet", out)?.decode_capture(capture, &filter))
}

/// Returns the packets that an input takes, and what it does with fragments that lack some.
fn taken(input: &Input) -> (FlowFilter, OnLoss) {
    let any = FlowEnd::default();
    let at = |host: &str, port: Option<u16>| FlowEnd { ip: host.parse().ok(), port };
    let port = |listen: &Endpoint| FlowEnd { port: Some(listen.port), ..any };
    let (from, to, on_loss) = match input {
        Input::Capture { filter, on_loss, .. } => return (*filter, *on_loss),
        Input::Tcp { listen, .. } => (any, port(listen), OnLoss::default()),
        Input::Board { place: BoardPlace::Tcp(board), .. } => {
            (at(&board.host, Some(board.port)), any, OnLoss::default())
        }
        Input::Board { place: BoardPlace::Udp(place), .. } => {
            let from = place.from.as_ref().map_or(any, |sender| at(&sender.host, sender.port));
            (from, port(&place.listen), place.on_loss)
        }
        _ => (any, any, OnLoss::default()),
    };
    (FlowFilter { from, to }, on_loss)
}

impl Listing<'_> {
    /// Decodes the packets of a capture, and lists the frames, the flows and what was not used.
    fn decode_capture(&mut self, mut capture: Capture, filter: &FlowFilter) -> io::Result<ExitCode> {
        let mut is_whole = true;
        loop {
            match capture.next_frame() {
                Ok(Some(frame)) if frame.is_stand_in() => {}
                Ok(Some(frame)) => self.note(frame.packet, &frame.fragment)?,
                Ok(None) => break,
                Err(error) => {
                    writeln!(self.out, "{error}")?;
                    is_whole = false;
                }
            }
        }
        self.counted.write(self.out)?;
        let counts = capture.counts();
        writeln!(self.out, "capture   {counts}")?;
        let (used, mut left): (Vec<_>, Vec<_>) = capture.flows().partition(|(_, count)| count.is_used);
        for (flow, count) in &used {
            self.write_flow("used", flow, count)?;
        }
        left.sort_by_key(|(_, count)| Reverse(count.packets));
        for (flow, count) in left.iter().take(NAMED) {
            self.write_flow("not used", flow, count)?;
        }
        if let Some(more) = left.len().checked_sub(NAMED).filter(|more| *more > 0) {
            writeln!(self.out, "not used  {}", counted(more as u64, "further flow"))?;
        }
        if counts.others > 0 {
            let others = counted(counts.others, "packet");
            writeln!(
                self.out,
                "not used  {others} that are neither UDP nor TCP, or of flows that are not counted one by one"
            )?;
        }
        if used.is_empty() {
            let FlowFilter { from, to } = filter;
            writeln!(
                self.out,
                "no packet is used: the source takes those from {from} to {to}; correct its addresses, or replay the capture with kind = \"pcap\" and `from`"
            )?;
        }
        let is_good = is_whole && counts.is_lossless() && self.counted.count() > 0;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn write_flow(&mut self, what: &str, flow: &Flow, count: &FlowPackets) -> io::Result<()> {
        writeln!(self.out, "{what:<10}{}, {flow}", counted(count.packets, "packet"))
    }
}
