//! [`ReportFacts`]: what a role's machine cannot know of what it reports.

use crate::{
    live::{HostFacts, complete_live},
    wire::control::{Control, DatagramReport, Message, RefusalReport, Report, RoleReport, TrainReport},
};

/// What a role's machine cannot know of what it reports.
#[derive(Clone, Debug, Default)]
pub struct ReportFacts {
    /// Of the process and its disk.
    pub host: HostFacts,
    /// What became of a source's trains of datagrams.
    pub trains: Option<TrainReport>,
    /// What a builder's common socket has seen.
    pub datagrams: Option<DatagramReport>,
    /// Who was turned away at a builder's port.
    pub refusals: Option<RefusalReport>,
}

impl ReportFacts {
    /// Adds to a report what its machine does not know; returns the counters of a final one.
    pub fn complete(self, message: &mut Control) -> Option<Report> {
        complete_live(message, || self.host);
        let Some(Message::Report(report)) = &mut message.message else { return None };
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
            }
            None => {}
        }
        Some(report.clone())
    }
}
