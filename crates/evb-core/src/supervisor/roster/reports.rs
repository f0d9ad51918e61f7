//! [`keep_report`]: stores the reports of peers.

use super::{Roster, Seat};
use crate::{
    supervisor::{lanes::PackedLanes, live::Latest},
    time::Instant,
    wire::control::{MAX_CHANGED, MAX_REASON, Report, RoleReport, plain},
};

/// Stores a peer's interim or final report (docs/reference/protocol.md RUN-37).
///
/// # Errors
/// Returns the reason why the report is invalid for that peer.
pub(in crate::supervisor) fn keep_report(
    roster: &mut Roster,
    seat: Seat,
    report: Report,
    now: Instant,
) -> Result<(), &'static str> {
    match (seat, report.report, report.live) {
        (Seat::Source(index), Some(RoleReport::Source(own)), live) => {
            let seat = &mut roster.sources[index];
            match live {
                Some(live) => seat.latest = Some(Latest::after(seat.latest.as_ref(), own, live, now)),
                None => seat.report = Some(own),
            }
        }
        (Seat::Builder(_), Some(RoleReport::Builder(own)), Some(_))
            if own.lanes.len() > roster.sources.len() =>
        {
            return Err("it reports more lanes than there are sources");
        }
        (Seat::Builder(_), Some(RoleReport::Builder(own)), Some(_)) if own.lanes.len() > MAX_CHANGED => {
            return Err("it reports more changed lanes than an interim report may have");
        }
        (Seat::Builder(index), Some(RoleReport::Builder(own)), Some(live)) => {
            let before = roster.builders[index].latest.take();
            let latest = Latest::merge(before, own, live, now, |id| roster.source_numbered(id));
            roster.builders[index].latest = Some(latest);
        }
        (Seat::Builder(index), Some(RoleReport::Builder(mut own)), None) => {
            let lanes = PackedLanes::of(core::mem::take(&mut own.lanes));
            own.gone = plain(&own.gone, MAX_REASON);
            let seat = &mut roster.builders[index];
            (seat.report, seat.lanes) = (Some(own), Some(lanes));
        }
        (_, _, Some(_)) => return Err("it sent the report of another role"),
        (_, _, None) => return Err("it sent the final report of another role"),
    }
    Ok(())
}
