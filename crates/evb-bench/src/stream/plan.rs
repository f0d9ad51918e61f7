//! The points to measure: all combinations of the swept settings.

use std::fmt;

use evb_core::units::Bytes;

use super::{StreamArguments, coalescing::Times};
use crate::ends::{LARGEST_DATAGRAM, SocketWishes, Transport};

/// A point to measure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) transport: Transport,
    pub(super) record: Bytes,
    /// Setting of TCP_NODELAY; `None` over UDP.
    pub(super) nodelay: Option<bool>,
    pub(super) buffer: Option<Bytes>,
    pub(super) mss: Option<u32>,
    pub(super) coalescing: Option<Times>,
    /// Name of the curve to which the point belongs: its transport and the swept settings.
    pub(super) series: String,
}

impl Case {
    pub(super) fn wishes(&self) -> SocketWishes {
        let buffer = self.buffer.map(|buffer| u32::try_from(buffer.count()).unwrap_or(u32::MAX));
        SocketWishes { buffer, mss: self.mss }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, records of {}", self.series, self.record)
    }
}

/// Returns the points in the order of their measurement, and remarks on points that differ from
/// what was requested.
pub(super) fn cases(arguments: &StreamArguments) -> (Vec<Case>, Vec<String>) {
    let mut cases: Vec<Case> = Vec::new();
    let mut remarks = Vec::new();
    for times in swept(&arguments.coalescing) {
        for transport in &arguments.transports {
            let is_tcp = *transport == Transport::Tcp;
            let nodelays = if is_tcp { swept(&arguments.nodelay) } else { vec![None] };
            let sizes = if is_tcp { swept(&arguments.mss) } else { vec![None] };
            for nodelay in &nodelays {
                for buffer in swept(&arguments.socket_buffers) {
                    for mss in &sizes {
                        let mut case = Case {
                            transport: *transport,
                            record: Bytes::ZERO,
                            nodelay: *nodelay,
                            buffer,
                            mss: *mss,
                            coalescing: times,
                            series: String::new(),
                        };
                        case.series = series(arguments, &case);
                        for record in &arguments.records {
                            case.record = sendable(*transport, *record, &mut remarks);
                            if !cases.contains(&case) {
                                cases.push(case.clone());
                            }
                        }
                    }
                }
            }
        }
    }
    if arguments.transports.contains(&Transport::Udp) && !arguments.mss.is_empty() {
        remarks.push("--mss applies to TCP only: over UDP, a record is a datagram".to_owned());
    }
    (cases, remarks)
}

/// Returns the values of a sweep; without values, the system's default is measured.
fn swept<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

/// Returns the record itself, or the largest one that fits into a datagram.
fn sendable(transport: Transport, record: Bytes, remarks: &mut Vec<String>) -> Bytes {
    if transport == Transport::Tcp || record.count() <= LARGEST_DATAGRAM {
        return record;
    }
    let remark =
        format!("records of {record} are sent over UDP as datagrams of {LARGEST_DATAGRAM} B, the largest");
    if !remarks.contains(&remark) {
        remarks.push(remark);
    }
    Bytes::new(LARGEST_DATAGRAM)
}

fn series(arguments: &StreamArguments, case: &Case) -> String {
    let mut words = vec![case.transport.to_string()];
    if let Some(nodelay) = case.nodelay.filter(|_| arguments.nodelay.len() > 1) {
        words.push(if nodelay { "no delay" } else { "Nagle" }.to_owned());
    }
    words.extend(case.buffer.map(|buffer| format!("buffers {buffer}")));
    words.extend(case.mss.map(|mss| format!("MSS {mss} B")));
    words.extend(case.coalescing.map(|times| format!("coalescing {times} µs")));
    words.join(", ")
}

/// Returns true if the record is a datagram that is larger than `limit`, the payload of a packet on
/// the path; false if the limit is not known.
pub(super) fn is_fragmented(case: &Case, limit: Option<u64>) -> bool {
    case.transport == Transport::Udp && limit.is_some_and(|limit| case.record.count() > limit)
}
