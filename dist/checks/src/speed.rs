//! Compares the rates of the programs of a release with that of the ordinary release build. The
//! programs take turns, so that a change of the machine's speed affects all of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use lab_base::{
    ratios::Ratios,
    report::{Bound, Report},
};
use serde_json::{Value, json};

use super::{PackagesArgs, Setting, execute, release::Files, unpack};

/// Sizes of a fragment: small fragments mean many events, which need the allocator; large ones load
/// the copies of memory.
const SIZES: [&str; 2] = ["1 kB", "1 MB"];
/// Least allowed upper end of the 95 % confidence interval of the ratio of rates. A program fails
/// if it is certainly slower; the scatter of a busy machine alone fails no program.
const KEPT: f64 = 0.9;

pub(super) fn check(
    setting: &Setting,
    files: &Files,
    args: &PackagesArgs,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    let dynamic = files.dynamic.as_ref().context("a quick test compares no rates")?;
    let programs = [
        ("ordinary", setting.evbd.clone()),
        ("glibc", unpack(&dynamic.glibc, folder)?.join("bin/evbd")),
        ("musl", unpack(&files.musl, folder)?.join("bin/evbd")),
    ];
    for size in SIZES {
        println!("\n4x4, {size}, events/s\n{:>5} {:>10} {:>10} {:>10}", "round", "ordinary", "glibc", "musl");
        let mut rates = Vec::new();
        for round in 0..args.rounds.max(2) {
            let mut of = [0.0; 3];
            // Every program is the first one equally often.
            for turn in 0..programs.len() {
                let which = (turn + round as usize) % programs.len();
                of[which] = events_per_s(&programs[which].1, size, args.seconds, folder)?;
            }
            println!("{:>5} {:>10.0} {:>10.0} {:>10.0}", round + 1, of[0], of[1], of[2]);
            rates.push(of);
        }
        for which in 1..programs.len() {
            let pairs: Vec<(f64, f64)> = rates.iter().map(|of| (of[0], of[which])).collect();
            let ratios = Ratios::of(&pairs);
            let name = programs[which].0;
            report.note(format!(
                "{name}, {size}: {:.3} of the ordinary rate, 95 % between {:.3} and {:.3}",
                ratios.mean, ratios.low, ratios.high
            ));
            report.attach(&format!("{name}, {size}"), json!({ "pairs": pairs, "mean": ratios.mean }));
            let what = format!("{name}, {size}: upper end of the ratio to the ordinary build");
            report.noisy(&what, ratios.high, Bound::AtLeast(KEPT));
        }
    }
    Ok(())
}

/// Runs a system for some time in a network of its own, and returns the rate of its events.
fn events_per_s(evbd: &PathBuf, size: &str, seconds: u32, folder: &Path) -> Result<f64> {
    let (config, summary) = (folder.join("speed.toml"), folder.join("speed.json"));
    fs::write(&config, system(size, seconds))?;
    let mut run = Command::new("unshare");
    run.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(evbd);
    execute(run.args(["run", "--quiet", "--summary"]).arg(&summary).arg(&config))?;
    let summary: Value = serde_json::from_str(&fs::read_to_string(summary)?)?;
    summary["rates"]["events_per_s"].as_f64().context("the summary has no rate")
}

fn system(size: &str, seconds: u32) -> String {
    let mut text = format!(
        "[run]\nduration = \"{seconds} s\"\n[supervisor]\nlisten = \"127.0.0.1:7000\"\n\
         trigger = \"as-fast-as-possible\"\n[[source]]\nids = \"1-4\"\nbind = \"127.0.0.1\"\n\
         input = {{ kind = \"generator\", size = \"{size}\" }}\n"
    );
    text += "[[builder]]\nids = \"1-4\"\nlisten = \"127.0.0.1:{7100+id}\"\nsink = \"null\"\n";
    text
}
