//! Compares all tools and readers of event files on random directories, which have good files, bad
//! ones and crafted ones, and things that are no files: all must find the same events, name the
//! same bad files, and take no longer than for good files of the same size.

mod crafted;
mod files;
mod tools;
mod pace;
mod judge;

use std::time::Instant;

use anyhow::{Result, bail};
use checkout::SKIPPED;
use clap::Args;
use evb_core::rng::Rng;
use lab_base::{needs::Need, setting::Setting};

use self::{
    files::{Kinds, Maker},
    judge::Judge,
    pace::Pace,
    tools::Tools,
};
use super::file_cpp::seed_of_now;

pub const NEEDS: &[Need] =
    &[Need { program: "g++", package: "g++" }, Need { program: "python3", package: "python3" }];

/// The number of directories from which on every kind of file must have been made.
const MANY: u64 = 300;

#[derive(Args)]
pub struct DirectoriesArgs {
    /// Number of directories.
    #[arg(long, default_value_t = 500)]
    count: u64,
    /// Seed of the directories; by default, it follows from the time.
    #[arg(long)]
    seed: Option<u64>,
    /// Make only the directory with this number.
    #[arg(long)]
    only: Option<u64>,
    /// Build the Python package and `evb-export` without optimization.
    #[arg(long)]
    quick: bool,
}

/// Makes and compares directories, and returns 0 if all agree.
pub fn run(setting: &Setting, args: &DirectoriesArgs, require: bool) -> Result<u8> {
    let folder = setting.folder("directories")?;
    let tools = match Tools::find(setting, &folder, args.quick)? {
        Ok(tools) => tools,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return Ok(SKIPPED);
        }
    };
    let (seed, begin) = (args.seed.unwrap_or_else(seed_of_now), Instant::now());
    println!("{} directories: --count {} --seed {seed} makes them again", args.count, args.count);
    let (mut kinds, mut pace, mut wrong) = (Kinds::new(), Pace::new(folder.join("good")), 0);
    for number in args.only.map_or(0..args.count, |only| only..only + 1) {
        // Each directory follows from its number alone.
        let rng = Rng::new(Rng::new(seed.wrapping_add(number)).next_u64());
        let mut maker = Maker { rng, scratch: folder.join("scratch"), kinds: &mut kinds };
        let made = maker.make(folder.join(format!("{number:05}")))?;
        let mut judge = Judge::new(&tools, &made, folder.join("out"), &mut pace);
        let complaints = judge.judge(number)?;
        for complaint in &complaints {
            println!("{}: {complaint}", made.path.display());
        }
        if complaints.is_empty() && args.only.is_none() {
            files::remove(&made.path)?;
        } else {
            wrong += u64::from(!complaints.is_empty());
            println!("  files: {}", told(&made.kinds));
        }
    }
    let told: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("{} files of {} kinds: {}", kinds.values().sum::<u64>(), kinds.len(), told.join(", "));
    pace.print();
    println!("{} directories in {:.0?}, {wrong} of them with a disagreement", args.count, begin.elapsed());
    let lacks = files::all_kinds().filter(|kind| !kinds.contains_key(kind)).collect::<Vec<_>>();
    if args.only.is_none() && args.count >= MANY && !lacks.is_empty() {
        bail!("no file is of these kinds: {}", lacks.join(", "));
    }
    Ok(u8::from(wrong > 0))
}

fn told(kinds: &[(String, &str)]) -> String {
    kinds.iter().map(|(mark, kind)| format!("{mark} {kind}")).collect::<Vec<_>>().join(", ")
}
