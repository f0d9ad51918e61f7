//! Tests `evb-export` with the programs that its users have: h5py, h5dump, pyarrow and uproot read
//! the exports of a KM3NeT run, of a large run and of a file beyond 4 GiB, and find every fragment
//! with its checksum. Also measures memory and speed, and kills exports at random instants.

pub mod tools;
mod runs;
mod content;
mod pace;
mod kills;
mod recipe;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use checkout::SKIPPED;
use clap::Args;
use lab_base::{needs::Need, report::Report, setting::Setting};

use self::{runs::Run, tools::Tools};

pub const NEEDS: &[Need] =
    &[Need { program: "python3", package: "python3" }, Need { program: "h5dump", package: "hdf5-tools" }];

#[derive(Args)]
pub struct ExportArgs {
    /// Take small runs and an unoptimized program, and only note what depends on speed.
    #[arg(long)]
    quick: bool,
    /// Size of the payloads of the large run, in MB.
    #[arg(long)]
    megabytes: Option<u64>,
    /// Number of exports that are killed.
    #[arg(long)]
    kills: Option<u32>,
    /// Seed of the instants at which exports are killed; by default, it follows from the time.
    #[arg(long)]
    seed: Option<u64>,
}

/// Sizes of the test.
struct Sizes {
    /// Events of the KM3NeT run, with about 12 kB each.
    km3net_events: u64,
    /// Payload of the large run, in bytes.
    large: u64,
    /// Payload of the single file whose events lack fragments, in bytes; beyond 4 GiB unless the
    /// test is quick.
    single: u64,
    kills: u32,
    rounds: usize,
    /// Fragments of the file with a dataset for each.
    datasets: u64,
}

impl Sizes {
    fn of(args: &ExportArgs) -> Self {
        let sizes = if args.quick {
            Self {
                km3net_events: 500,
                large: 100_000_000,
                single: 20_000_000,
                kills: 6,
                rounds: 1,
                datasets: 2000,
            }
        } else {
            let single = 4_400_000_000;
            Self { km3net_events: 5000, large: 2_000_000_000, single, kills: 20, rounds: 3, datasets: 20_000 }
        };
        let (large, kills) = (args.megabytes.map(|mb| mb * 1_000_000), args.kills);
        Self { large: large.unwrap_or(sizes.large), kills: kills.unwrap_or(sizes.kills), ..sizes }
    }
}

/// Runs all parts, and returns 0 if every bound holds, else 1.
pub fn run(setting: &Setting, args: &ExportArgs, require: bool) -> Result<u8> {
    let folder = setting.folder("export")?;
    let tools = match Tools::find(setting, args.quick)? {
        Ok(tools) => tools,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return Ok(SKIPPED);
        }
    };
    let sizes = Sizes::of(args);
    let mut report = Report::bare("export");
    let km3net = Run::km3net(&tools, &folder, sizes.km3net_events)?;
    let exports = Exports::of(&folder, "km3net");
    content::check(&tools, &km3net, &exports, &mut report)?;
    content::structure(&exports.hdf5, &mut report)?;
    recipe::check(&tools, &exports, &mut report)?;
    pace::datasets(&tools, &exports.hdf5, sizes.datasets, &mut report)?;
    kills::check(&tools, &km3net, &exports, sizes.kills, args.seed, &mut report)?;
    exports.remove()?;

    let large = Run::large(&tools, &folder, sizes.large)?;
    let exports = Exports::of(&folder, "large");
    pace::compare(&tools, &large, &exports, sizes.rounds, &mut report)?;
    content::check(&tools, &large, &exports, &mut report)?;
    exports.remove()?;
    fs::remove_dir_all(&large.folder)?;

    let single = Run::single(&folder, sizes.single)?;
    let exports = Exports::of(&folder, "single");
    content::check(&tools, &single, &exports, &mut report)?;
    exports.remove()?;
    fs::remove_dir_all(&single.folder)?;
    Ok(u8::from(!report.finish(&setting.out)?))
}

/// The exports of a run.
struct Exports {
    hdf5: PathBuf,
    parquet: PathBuf,
}

impl Exports {
    fn of(folder: &Path, name: &str) -> Self {
        Self { hdf5: folder.join(format!("{name}.h5")), parquet: folder.join(format!("{name}.parquet")) }
    }

    /// Returns the formats with their paths.
    fn each(&self) -> [(&'static str, &Path); 2] {
        [("hdf5", &self.hdf5), ("parquet", &self.parquet)]
    }

    fn remove(&self) -> Result<()> {
        for (_, path) in self.each() {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}
