//! Exports that are killed at random instants: under the final name there is nothing, or the whole
//! export.

use std::{
    fs, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use evb_core::rng::Rng;
use lab_base::{
    guard::Guarded,
    report::{Bound, Report},
};

use super::{Exports, runs::Run, tools::Tools};

/// Kills exports, and compares what they leave with whole exports.
pub(super) fn check(
    tools: &Tools,
    run: &Run,
    exports: &Exports,
    kills: u32,
    seed: Option<u64>,
    report: &mut Report,
) -> Result<()> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let seed = seed.unwrap_or_else(now);
    let mut rng = Rng::new(seed);
    let (mut parts, mut stopped, mut whole) = (0, 0, 0);
    for (format, path) in exports.each() {
        let reference = fs::read(path)?;
        let out = path.with_file_name(format!("killed-{format}"));
        let began = Instant::now();
        tools.export_of(&run.folder, format, &out).output().context("evb-export does not start")?;
        let duration = began.elapsed();
        for kill in 0..kills.div_ceil(2) {
            let _ = fs::remove_file(&out);
            let mut export = tools.export_of(&run.folder, format, &out);
            let mut export = Guarded(export.stdout(std::process::Stdio::null()).spawn()?);
            if kill == 0 {
                // The first instant at which the final name exists.
                while !out.exists() && export.0.try_wait()?.is_none() {
                    thread::yield_now();
                }
            } else {
                // A little longer than an export takes, so that the end is among the instants.
                thread::sleep(Duration::from_secs_f64(1.1 * duration.as_secs_f64() * rng.uniform()));
            }
            export.0.kill()?;
            let ended = export.0.wait()?;
            stopped += u32::from(!ended.success());
            match fs::read(&out) {
                Err(_) => {}
                Ok(found) if found == reference => whole += 1,
                Ok(_) => parts += 1,
            }
        }
        let _ = fs::remove_file(&out);
        let _ = fs::remove_file(out.with_file_name(format!("killed-{format}.part")));
    }
    println!(
        "of {kills} exports (seed {seed}), {stopped} were killed before their end; {whole} files are whole"
    );
    report.holds("files under the final name that are not whole", f64::from(parts), Bound::AtMost(0.0));
    report.holds(
        "files that were whole at the first instant of their final name",
        f64::from(whole),
        Bound::AtLeast(2.0),
    );
    report.holds("exports that were killed before their end", f64::from(stopped), Bound::AtLeast(1.0));
    Ok(())
}
