//! Admission control: compares the load of a configuration on links, port buffers and memory with
//! their capacity.
//!
//! All values are computed from the configuration; nothing is measured. Sizes are means, except
//! where a limit must hold at any time (budget, windows, bursts, memory). Two byte measures are
//! never mixed: links are counted in *line bytes*, port buffers in *buffer bytes*
//! ([`evb_shaper::cost`]).

mod sums;
mod nodes;
mod rules;
mod paths;
mod planning;
#[cfg(test)]
mod tests;

use evb_core::units::Bytes;

pub use nodes::{NodeSum, QueueSum};
pub use paths::{GrantPaths, MeasuredPath, PathError, PathOrigin, PathStage};
pub use planning::{Bound, HANDLING, Planning, PortPlanning, planning};
pub(crate) use rules::rounded_down;
pub use rules::{Objection, Weight, objections};
pub(crate) use sums::narrowest;
pub use sums::{EventSum, MemorySum, PortSum, Sums, UplinkSum, sums};

use crate::{Admission, Loaded, Problem, Problems, Severity};

/// Returns the sums behind a configuration, and the problems that they show. `machine_memory` is
/// the memory of this machine.
///
/// With `[network] admission = "warn"`, a load that exceeds the links or the port buffers causes a
/// warning; too little memory stays an error.
pub fn admit(loaded: &Loaded, machine_memory: Option<Bytes>) -> (Sums, Problems) {
    let sums = sums(&loaded.config, machine_memory);
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
    let problems = Problems::new(loaded.origin.clone(), problems.collect());
    (sums, problems)
}
