//! Counts of the network: faults, repairs, refused connections, and datagrams.

use serde::Serialize;

use super::{Percentiles, Spread};
use crate::wire::control::{
    BuilderReport, DatagramReport, LaneReport, RefusalReport, SourceReport, TrainReport,
};

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
        builders: impl IntoIterator<Item = &'a BuilderReport, IntoIter: Clone>,
    ) -> Self {
        let (sources, lanes, builders) = (sources.into_iter(), lanes.into_iter(), builders.into_iter());
        let of_sources = |count: fn(&SourceReport) -> u64| sum(sources.clone().map(count));
        let of_trains =
            |count: fn(TrainReport) -> u64| sum(sources.clone().filter_map(|own| own.trains).map(count));
        let of_lanes = |count: fn(&LaneReport) -> u64| sum(lanes.clone().map(count));
        let of_sockets = |count: fn(DatagramReport) -> u64| {
            sum(builders.clone().filter_map(|own| own.datagrams).map(count))
        };
        let (mut recovery, mut round_trip) = (Percentiles::default(), Percentiles::default());
        for times in builders.clone().filter_map(|own| own.times.as_ref()) {
            recovery.add(&times.recovery_us, times.recovery_max_us);
            round_trip.add(&times.round_trip_us, 0);
        }
        Self {
            tcp_retransmits: of_sources(|own| own.tcp_retransmits),
            resends: of_sources(|own| own.resends),
            duplicates: of_lanes(|lane| lane.duplicate),
            late: of_lanes(|lane| lane.late),
            crc_errors: of_lanes(|lane| lane.crc_errors),
            datagrams: DatagramCounts {
                received: of_lanes(|lane| lane.segments),
                absent: of_lanes(|lane| lane.absent),
                lost_bytes: of_lanes(|lane| lane.lost_bytes),
                resends: of_lanes(|lane| lane.resends),
                timeouts: of_lanes(|lane| lane.timeouts),
                late_after_loss: of_lanes(|lane| lane.late_after_loss),
                duplicates: of_lanes(|lane| lane.duplicate_segments),
                damaged: of_sockets(|socket| socket.damaged),
                foreign: of_sockets(|socket| socket.foreign),
                stale: of_sockets(|socket| socket.stale),
                forged: of_sockets(|socket| socket.forged),
                replayed: of_sockets(|socket| socket.replayed),
                receive_drops: of_sockets(|socket| socket.receive_drops),
                send_drops: of_trains(|trains| trains.send_drops),
                segmentation_refused: of_trains(|trains| trains.segmentation_refused),
                uncut: of_trains(|trains| trains.uncut),
                recovery_us: recovery.spread(),
                round_trip_us: round_trip.spread(),
            },
        }
    }
}

/// Returns the sum of counts, without overflow.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
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
            *count = count.saturating_add(more);
            self.refused = self.refused.saturating_add(more);
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
