//! [`ReportFacts`]: the facts in a report that a role's state machine cannot know.

use crate::{
    framing::Losses,
    live::{HostFacts, complete_live},
    wire::control::{
        BuilderReport, Control, DatagramReport, FilesReport, FilterReport, Live, Message, RefusalReport,
        Report, RoleReport, TapReport, TrainReport,
    },
};

/// Counts of what the front ends of a source have sent in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontEndCounts {
    /// Fragments from before the start of the run that the listener discarded itself.
    pub discarded: u64,
    /// Fragments that were discarded because they are of another run.
    pub of_other_runs: u64,
    /// Fragments that were cut off, or bytes that cannot be a fragment.
    pub malformed: u64,
    /// Lowest version of the protocol by which fragments came; 0 if none came.
    pub protocol: u32,
    /// Fragments that did not state their run.
    pub run_not_stated: u64,
    /// Losses of the decoders of boards' frames.
    pub losses: Losses,
}

/// The facts in a report that a role's state machine cannot know.
#[derive(Clone, Debug, Default)]
pub struct ReportFacts {
    /// Facts about the process, its memory and its disk.
    pub host: HostFacts,
    /// Number of TCP segments that a source's kernel sent again on each lane.
    pub tcp_retransmits: Vec<u64>,
    /// Counts of a source's front ends.
    pub front_ends: FrontEndCounts,
    /// Counts of the trains of datagrams that a source sent.
    pub trains: Option<TrainReport>,
    /// Counts of the UDP socket that a builder's lanes share.
    pub datagrams: Option<DatagramReport>,
    /// Connections that were refused at a builder's port.
    pub refusals: Option<RefusalReport>,
    /// Text that names the events that a builder's sink stored and that are gone; usually empty.
    pub gone: String,
    /// Counts of a builder's tap, if it has one.
    pub tap: Option<TapReport>,
    /// Counts of a builder's filter, if processes judge its events.
    pub filter: Option<FilterReport>,
    /// Files that a builder's sink has closed; `None` if there are none.
    pub files: Option<FilesReport>,
}

impl ReportFacts {
    /// Adds to a report the facts that the role's state machine does not know. Returns a copy of
    /// the report if it is the final one.
    pub fn complete(self, message: &mut Control) -> Option<Report> {
        complete_live(message, || self.host);
        let Some(Message::Report(report)) = &mut message.message else { return None };
        if let Some(RoleReport::Source(source)) = &mut report.report {
            let counts = self.front_ends;
            let FrontEndCounts { discarded, of_other_runs, malformed, protocol, run_not_stated, .. } = counts;
            let losses = counts.losses;
            source.garbage_bytes = losses.garbage_bytes;
            source.resyncs = losses.resyncs;
            source.lost_packets = losses.lost_packets;
            source.unused_packets = losses.unused_packets;
            source.socket_drops = losses.socket_drops;
            source.discarded_before_start += discarded;
            source.of_other_runs = of_other_runs;
            source.malformed = malformed;
            source.front_end_protocol = protocol;
            source.run_not_stated = run_not_stated;
        }
        if let Some(RoleReport::Builder(builder)) = &mut report.report {
            builder.tap = self.tap;
            builder.filter = self.filter;
            builder.files = self.files;
        }
        // A report with live figures is one of the reports during the run.
        if report.live.is_some() {
            return None;
        }
        match &mut report.report {
            Some(RoleReport::Source(source)) => {
                source.tcp_retransmits = self.host.tcp_retransmits;
                source.trains = self.trains;
            }
            Some(RoleReport::Builder(builder)) => {
                builder.datagrams = self.datagrams;
                builder.refusals = self.refusals;
                builder.gone = self.gone;
            }
            None => {}
        }
        Some(report.clone())
    }
}

/// Returns a builder's message with the files that its sink closed at the end of the run
/// (docs/reference/protocol.md RUN-53).
pub fn last_files(files: FilesReport) -> Control {
    let own = BuilderReport { files: Some(files), ..BuilderReport::default() };
    let report = Report { report: Some(RoleReport::Builder(own)), live: Some(Live::default()) };
    Control { message: Some(Message::Report(report)) }
}
