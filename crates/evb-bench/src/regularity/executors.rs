//! The executors of departure times that the study compares.

use std::net::IpAddr;

use evb_net::pacing::{Executor, Offload, Software, Transport, Trial, Txtime, cores, prove, spin_allowed};

use super::{judged::TICK, namespace, sender::Shaper, ticks::Ticks};
use crate::output::BenchError;

/// An executor of departure times to measure, with its name.
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) executor: Box<dyn Executor>,
    pub(super) shaper: Shaper,
}

impl Candidate {
    /// Returns the executor of unshaped runs, which sends each message as it is triggered.
    pub(super) fn at_once() -> Self {
        Self::new("at once", Software::timer(), Shaper::Bucket)
    }

    /// Returns an executor whose timer expires only at the ticks of a clock.
    pub(super) fn ticking(hertz: u32) -> Option<Self> {
        let ticks = Ticks::new(hertz)?;
        Some(Self::new(format!("{TICK}{hertz}"), Software::timer(), Shaper::Ticks(ticks)))
    }

    fn new(name: impl Into<String>, executor: impl Executor + 'static, shaper: Shaper) -> Self {
        Self { name: name.into(), executor: Box::new(executor), shaper }
    }
}

/// Returns the executors of these names. An executor that this host does not have is left out, with
/// a remark; `path` has the addresses of sender and receiver.
pub(super) fn candidates(
    names: &[String],
    path: (IpAddr, IpAddr),
    remarks: &mut Vec<String>,
) -> Result<Vec<Candidate>, BenchError> {
    let mut candidates = Vec::new();
    for name in names {
        candidates.extend(candidate(name, path, remarks)?);
    }
    Ok(candidates)
}

fn candidate(
    name: &str,
    (from, to): (IpAddr, IpAddr),
    remarks: &mut Vec<String>,
) -> Result<Option<Candidate>, BenchError> {
    let ticking = name.strip_prefix(TICK).map(|hertz| hertz.parse().ok().and_then(Candidate::ticking));
    Ok(match name {
        "timerfd" => Some(Candidate::new(name, Software::timer(), Shaper::Bucket)),
        "spin" => {
            if let Err(refused) = spin_allowed(false, cores()) {
                remarks.push(format!("spin is forced here: {refused}"));
            }
            Some(Candidate::new(name, Software::spinning(), Shaper::Bucket))
        }
        "txtime" => {
            let proof = prove(Offload::Txtime, &Trial::new(Transport::Udp, from, to));
            if !proof.held {
                remarks.push(format!("txtime is left out: {proof}"));
            }
            proof.held.then(|| Candidate::new(name, Txtime, Shaper::Bucket))
        }
        "tbf" => match namespace::ready() {
            Ok(()) => Some(Candidate::new(name, Software::timer(), Shaper::Kernel)),
            Err(reason) => {
                remarks.push(format!("tbf is left out: {reason}"));
                None
            }
        },
        other => match ticking {
            Some(Some(candidate)) => Some(candidate),
            _ => {
                return Err(BenchError::Operator(format!(
                    "there is no executor `{other}`; choose from timerfd, spin, txtime, tbf, tick:100, tick:1500 \
                     (tick:HZ, of at most 1 MHz)"
                )));
            }
        },
    })
}
