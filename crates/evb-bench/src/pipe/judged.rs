//! The verdicts of the study.

use evb_core::units::Bytes;

use super::{
    cases::Kind,
    outcome::{PipePoint, PipeStudy, Verdict},
};

/// Least ratio of the fast host's spread to that of the equal-rate host.
const FAR_MORE: f64 = 3.0;
/// Least part of its link's rate that the fast host's largest peak has.
const PEAK: f64 = 0.95;
/// Largest ratio of a peak at the receiver to the rate of the slowest link for an unpaced host; a
/// packet more may end in the same millisecond.
const RECEIVED: f64 = 1.05;
/// Largest ratio of the peaks of clusters and paces to the rate of the slowest link.
const GENTLE: f64 = 1.1;
/// Largest relative difference between the computed and the simulated buffer.
const AGREEMENT: f64 = 0.2;

/// Returns all verdicts on a study.
pub(super) fn judge(study: &PipeStudy) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let of = |kind: Kind| study.points.iter().filter(move |point| point.kind == kind);
    for fast in of(Kind::Fast) {
        let same = of(Kind::Equal).find(|equal| equal.transmit_queue == fast.transmit_queue);
        verdicts.extend(same.into_iter().flat_map(|equal| order(fast, equal)));
    }
    let peak = |of: &dyn Fn(&PipePoint) -> u32, kind| {
        study.points.iter().filter(|point| point.kind == kind).map(of).max().map(f64::from)
    };
    if let Some(sent) = peak(&|point| point.peak_sent_per_ms, Kind::Fast) {
        let bound = study.fast_packets_per_ms * PEAK;
        verdicts.push(Verdict::at_least("fast host: largest peak sent", sent, bound, "packets/ms"));
    }
    if let Some(received) = peak(&|point| point.peak_received_per_ms, Kind::Fast) {
        let bound = (study.bottleneck_packets_per_ms * RECEIVED).max(study.bottleneck_packets_per_ms + 1.5);
        verdicts.push(Verdict::below("fast host: largest peak received", received, bound, "packets/ms"));
    }
    let gentle = study.bottleneck_packets_per_ms * GENTLE;
    for point in &study.points {
        let received = || {
            let what = format!("{}: largest peak received", point.case);
            Verdict::below(what, point.peak_received_per_ms.into(), gentle, "packets/ms")
        };
        match point.kind {
            Kind::Clusters => verdicts.push(received()),
            // Of an executor that sends trains, a late one and the next share a millisecond.
            Kind::Pace { sends_trains: true } => verdicts.push(received()),
            Kind::Pace { sends_trains: false } => {
                verdicts.push(received());
                let what = format!("{}: largest peak sent", point.case);
                verdicts.push(Verdict::below(what, point.peak_sent_per_ms.into(), gentle, "packets/ms"));
            }
            Kind::Fast | Kind::Equal | Kind::Gap(_) => {}
        }
    }
    verdicts.push(buffer(study));
    verdicts
}

/// Judges the order of the two hosts: the fast one is slower in the median, and spreads far more.
fn order(fast: &PipePoint, equal: &PipePoint) -> [Verdict; 2] {
    let queue = fast.transmit_queue;
    let mbit = |bits: u64| bits as f64 / 1e6;
    let (slower, bound) = (mbit(fast.median_bits_per_s), mbit(equal.median_bits_per_s));
    let spread = equal.spread() * FAR_MORE;
    [
        Verdict::below(
            format!("queue of {queue}: median of the fast host, and of the equal-rate host"),
            slower,
            bound,
            "Mbit/s",
        ),
        Verdict::at_least(
            format!(
                "queue of {queue}: spread of the fast host, and {FAR_MORE} × that of the equal-rate host"
            ),
            fast.spread() * 100.0,
            spread * 100.0,
            "% of the median",
        ),
    ]
}

/// Compares the longest queue of a fast host with the sum that `evbd check` shows.
fn buffer(study: &PipeStudy) -> Verdict {
    let need = study.queue_after_slow_start_line_bytes.max(study.queue_of_window_line_bytes);
    let computed = study.computed_buffer_line_bytes.max(1);
    let off = (need as f64 / computed as f64 - 1.0).abs();
    let what = format!(
        "buffer that the fast host needs, {}, against the computed {}",
        Bytes::new(need),
        Bytes::new(computed)
    );
    Verdict::below(what, off * 100.0, AGREEMENT * 100.0, "% off")
}
