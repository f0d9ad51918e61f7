//! Admission control: compares the load of a configuration on links, port buffers and memory with
//! their capacity.
//!
//! All values are computed from the configuration; nothing is measured. Sizes are means, except
//! where a limit must hold at any time (budget, windows, bursts, memory). Two byte measures are
//! never mixed: links are counted in *line bytes*, port buffers in *buffer bytes*
//! ([`evb_shaper::cost`]).

mod flow;
mod nodes;
mod descriptors;
mod sums;
mod rules;
mod clock_rules;
mod paths;
mod fast_host;
mod planning;
#[cfg(test)]
mod tests;

use evb_core::{id::Peer, units::Bytes};

pub use descriptors::{DescriptorSum, descriptors};
pub use fast_host::FastHost;
pub use nodes::{NodeSum, QueueSum};
pub use paths::{GrantPaths, MeasuredPath, PathError, PathOrigin, PathStage};
pub use planning::{Bound, HANDLING, Planning, PortPlanning, planning};
pub(crate) use rules::rounded_down;
pub use rules::{Objection, Weight, objections};
pub(crate) use sums::narrowest;
pub use sums::{EventSum, MemorySum, PortSum, Sums, UplinkSum, sums};

use crate::{Admission, Config, Loaded, Origin, Problem, Problems, Severity};

/// The limits of this machine, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Memory of the machine.
    pub memory: Option<Bytes>,
    /// Number of file descriptors that a process may have open, if a single process is to host all
    /// roles of a host.
    pub descriptors: Option<u64>,
}

impl From<Option<Bytes>> for Machine {
    fn from(memory: Option<Bytes>) -> Self {
        Self { memory, descriptors: None }
    }
}

/// Returns an error if a process with these roles needs more than `limit` file descriptors, and
/// otherwise no problem.
pub fn too_few_descriptors(config: &Config, origin: &Origin, roles: &[Peer], limit: u64) -> Problems {
    let sum = DescriptorSum { limit: Some(limit), ..descriptors(config, roles) };
    let problem = |objection: Objection| Problem {
        severity: Severity::Error,
        key: objection.key.to_owned(),
        span: origin.span(objection.key),
        reason: objection.reason,
        remedy: objection.remedy,
    };
    let problems = rules::too_few_descriptors(&sum).into_iter().map(problem).collect();
    Problems::new(origin.clone(), problems)
}

/// Returns the sums behind a configuration, and the problems that they show.
///
/// With `[network] admission = "warn"`, a load that exceeds the links or the port buffers causes a
/// warning; too little memory stays an error.
pub fn admit(loaded: &Loaded, machine: impl Into<Machine>) -> (Sums, Problems) {
    let sums = sums(&loaded.config, machine.into());
    let deliberate = loaded.config.network.admission == Admission::Warn;
    let problem = |objection: Objection| {
        let (severity, remedy) = match objection.weight {
            Weight::Fatal => (Severity::Error, objection.remedy),
            Weight::Overload if !deliberate => {
                let on_purpose = "to overload on purpose, set [network] admission = \"warn\"";
                (Severity::Error, format!("{}; {on_purpose}", objection.remedy))
            }
            Weight::Overload | Weight::Risk => (Severity::Warning, objection.remedy),
        };
        let span = loaded.origin.span(objection.key);
        Problem { severity, key: objection.key.to_owned(), span, reason: objection.reason, remedy }
    };
    let problems = objections(&loaded.config, &sums).into_iter().map(problem);
    let problems = problems.chain(clock_rules::problems(&loaded.config, &loaded.origin));
    let problems = Problems::new(loaded.origin.clone(), problems.collect());
    (sums, problems)
}
