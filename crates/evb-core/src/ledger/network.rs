//! Counts of the network: faults, repairs, refused connections, and datagrams.

use serde::Serialize;

use super::{Percentiles, Spread};
use crate::wire::control::{BuilderReport, LaneReport, RefusalReport, SourceReport};

/// Faults and repairs in the network.
///
/// ```
/// use evb_core::ledger::NetworkCounts;
///
/// /// Returns true if no packet was lost or damaged.
/// fn is_lossless(network: &NetworkCounts) -> bool {
///     network.tcp_retransmits + network.resends + network.crc_errors == 0
/// }
///
/// assert!(!is_lossless(&NetworkCounts { tcp_retransmits: 3, ..NetworkCounts::default() }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkCounts {
    /// TCP segments that the kernels of the hosts sent again.
    pub tcp_retransmits: u64,
    /// Lane ranges that evb sent again.
    pub resends: u64,
    /// Fragments that arrived twice.
    pub duplicates: u64,
    /// Fragments that arrived after their event was closed.
    pub late: u64,
    /// Fragments with a wrong checksum.
    pub crc_errors: u64,
    /// Counts of lanes over datagrams.
    pub datagrams: DatagramCounts,
}

impl NetworkCounts {
    /// Sums the counts of sources, of lanes at builders, and of builders.
    pub fn of<'a>(
        sources: impl IntoIterator<Item = &'a SourceReport, IntoIter: Clone>,
        lanes: impl IntoIterator<Item = &'a LaneReport, IntoIter: Clone>,
        builders: impl IntoIterator<Item = &'a BuilderReport>,
    ) -> Self {
        let (sources, lanes) = (sources.into_iter(), lanes.into_iter());
        let of_sources = |count: fn(&SourceReport) -> u64| sum(sources.clone().map(count));
        let of_lanes = |count: fn(&LaneReport) -> u64| sum(lanes.clone().map(count));
        Self {
            tcp_retransmits: of_sources(|own| own.tcp_retransmits),
            resends: of_sources(|own| own.resends),
            duplicates: of_lanes(|lane| lane.duplicate),
            late: of_lanes(|lane| lane.late),
            crc_errors: of_lanes(|lane| lane.crc_errors),
            datagrams: DatagramCounts::of(sources.clone(), lanes.clone(), builders),
        }
    }
}

/// Connections that were refused, or closed because their bytes were not those of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusalCounts {
    /// Number of all refused connections.
    pub refused: u64,
    /// Connections with another protocol.
    pub foreign: u64,
    /// Connections without a key, with a wrong key, or with a key where none is configured.
    pub keys: u64,
    /// Connections with malformed messages.
    pub malformed: u64,
    /// Connections that sent nothing in time, or closed during the handshake.
    pub silent: u64,
    /// Peers that are not part of the run.
    pub unwelcome: u64,
    /// Connections closed without reading: too many from the same address had failed or were in
    /// progress.
    pub limited: u64,
    /// Connections that sent bytes without a valid tag, during the handshake or later.
    pub forged: u64,
    /// Connections of peers with another version of the protocol.
    pub version: u64,
}

impl RefusalCounts {
    /// Adds the counts from one listener's report.
    pub fn add(&mut self, report: &RefusalReport) {
        let RefusalReport { foreign, keys, malformed, silent, unwelcome, limited, forged, version } = *report;
        for (count, more) in [
            (&mut self.foreign, foreign),
            (&mut self.keys, keys),
            (&mut self.malformed, malformed),
            (&mut self.silent, silent),
            (&mut self.unwelcome, unwelcome),
            (&mut self.limited, limited),
            (&mut self.forged, forged),
            (&mut self.version, version),
        ] {
            add(count, more);
            add(&mut self.refused, more);
        }
    }
}

/// Counts of the datagrams that sources sent to builders; all zero over TCP.
///
/// ```
/// use evb_core::ledger::{DatagramCounts, fraction};
///
/// let lanes = DatagramCounts { received: 9_990, absent: 10, ..DatagramCounts::default() };
/// let sent = lanes.received + lanes.absent;
/// assert_eq!(fraction(lanes.absent as f64, sent as f64), 0.001);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramCounts {
    /// Datagrams received from sources.
    pub received: u64,
    /// Datagrams that never arrived, by the gaps in their sequence numbers.
    pub absent: u64,
    /// Lane bytes declared lost.
    pub lost_bytes: u64,
    /// Ranges that builders requested again.
    pub resends: u64,
    /// Losses detected by a timer rather than by later data.
    pub timeouts: u64,
    /// Datagrams that arrived after the builder had declared them lost and requested their bytes
    /// again too early.
    pub late_after_loss: u64,
    /// Datagrams that brought no new bytes.
    pub duplicates: u64,
    /// Datagrams with a wrong checksum. The counts from `damaged` to `receive_drops` are totals of
    /// builders; for a single source, they are 0.
    pub damaged: u64,
    /// Datagrams of another protocol.
    pub foreign: u64,
    /// Datagrams of another epoch, or of a connection that has ended.
    pub stale: u64,
    /// Datagrams that name a lane but lack the tag of its source. Counted only where peers share a
    /// key.
    pub forged: u64,
    /// Datagrams with a valid tag that were received before. Counted only where peers share a key.
    pub replayed: u64,
    /// Datagrams that the builders' kernels dropped because the builders did not read them in time.
    pub receive_drops: u64,
    /// Trains that the sources' kernels dropped: no memory, no room in the device's queue, or past
    /// their departure time.
    pub send_drops: u64,
    /// Trains that the sources' kernels refused to split into datagrams (`UDP_SEGMENT`).
    pub segmentation_refused: u64,
    /// Datagrams that sources sent one by one, because the kernel refused to split the train.
    pub uncut: u64,
    /// Time to repair a loss: from the arrival of the bytes before the lost ones, or from the grant
    /// of the lost bytes, to their arrival. Each datagram that was sent again and was needed
    /// contributes one value. The times `recovery_us` and `round_trip_us` are totals of builders;
    /// for a single source, they are empty.
    pub recovery_us: Spread,
    /// Round trip time: from a grant to the first datagram that answers it.
    pub round_trip_us: Spread,
}

impl DatagramCounts {
    /// Sums the counts of sources, of lanes at builders, and of builders.
    pub fn of<'a>(
        sources: impl IntoIterator<Item = &'a SourceReport>,
        lanes: impl IntoIterator<Item = &'a LaneReport>,
        builders: impl IntoIterator<Item = &'a BuilderReport>,
    ) -> Self {
        let mut counts = Self::default();
        for trains in sources.into_iter().filter_map(|own| own.trains) {
            add(&mut counts.send_drops, trains.send_drops);
            add(&mut counts.segmentation_refused, trains.segmentation_refused);
            add(&mut counts.uncut, trains.uncut);
        }
        for lane in lanes {
            add(&mut counts.received, lane.segments);
            add(&mut counts.absent, lane.absent);
            add(&mut counts.lost_bytes, lane.lost_bytes);
            add(&mut counts.resends, lane.resends);
            add(&mut counts.timeouts, lane.timeouts);
            add(&mut counts.late_after_loss, lane.late_after_loss);
            add(&mut counts.duplicates, lane.duplicate_segments);
        }
        let (mut recovery, mut round_trip) = (Percentiles::default(), Percentiles::default());
        for own in builders {
            let sockets = own.datagrams.unwrap_or_default();
            add(&mut counts.damaged, sockets.damaged);
            add(&mut counts.foreign, sockets.foreign);
            add(&mut counts.stale, sockets.stale);
            add(&mut counts.forged, sockets.forged);
            add(&mut counts.replayed, sockets.replayed);
            add(&mut counts.receive_drops, sockets.receive_drops);
            if let Some(times) = &own.times {
                recovery.add(&times.recovery_us, times.recovery_max_us);
                round_trip.add(&times.round_trip_us, 0);
            }
        }
        Self { recovery_us: recovery.spread(), round_trip_us: round_trip.spread(), ..counts }
    }
}

/// Adds to a count, without overflow.
fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

/// Returns the sum of counts, without overflow.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
