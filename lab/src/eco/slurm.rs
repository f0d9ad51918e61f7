//! Tests the batch script that evb ships on a real Slurm cluster: a controller and four nodes, each
//! on its own simulated host.

mod cluster;
mod course;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use lab_base::{
    alone::{self, IP, SETPRIV, UNSHARE},
    needs::Need,
    setting::Setting,
};

use super::hosts::{HOSTNAME, MOUNT};

pub(crate) const NEEDS: &[Need] = &[
    Need { program: "munged", package: "munge" },
    Need { program: "slurmctld", package: "slurmctld" },
    Need { program: "slurmd", package: "slurmd" },
    Need { program: "sbatch", package: "slurm-client" },
    SETPRIV,
    UNSHARE,
    IP,
    HOSTNAME,
    MOUNT,
];

/// Time limit of the whole test; after it, all its processes are killed.
const LIMIT: Duration = Duration::from_secs(270);

#[derive(Args)]
pub(crate) struct SlurmArgs {
    /// Number of events that the first job builds.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(setting: &Setting, args: &SlurmArgs) -> Result<u8> {
    if args.inside {
        return course::run(setting, args.events).map(|()| 0);
    }
    let (evbd, out) = (setting.evbd.to_string_lossy(), setting.out.to_string_lossy());
    let events = args.events.to_string();
    alone::run(&["eco", "slurm", "--evbd", &*evbd, "--out", &*out, "--events", &events, "--inside"], LIMIT)
}
