//! `cargo xtask studies`: runs the studies that reproduce the figures of the papers on which evb
//! stands, and writes their results, pictures and tables into `docs/studies`; whole results stay in
//! `target/studies`.
//!
//! `docs/studies/studies.toml` lists the figures and the studies.
#![allow(missing_docs)] // xtask alone uses it; names and types say the rest.

pub mod catalog;
mod select;
pub mod kept;
mod table;
pub mod result;
pub mod page;
mod execute;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use checkout::IN_PART;
use clap::Args;

use self::{
    catalog::{CATALOG, Catalog, Study},
    execute::{Ended, Programs},
    kept::Kept,
    result::{FIGURES, RESULTS, Stored},
};

/// Folder of the pages.
pub const PAGES: &str = "docs/studies/";
/// Time limit of all short forms together, in seconds.
const QUICK: f64 = 900.0;
/// Factor by which a short form may exceed its time limit, that of an idle machine: CI runs
/// other steps beside.
const BESIDE: u64 = 3;

#[derive(Args)]
pub struct StudiesArgs {
    /// Run only the studies whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Run the short forms, which check that commands, tables and pictures work; they write to
    /// `target/studies` and leave the documentation as it is.
    #[arg(long)]
    quick: bool,
    /// Run nothing; check that the pages agree with the stored results.
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// Run nothing; fill the pages from the stored results.
    #[arg(long, conflicts_with_all = ["quick", "check"])]
    fill: bool,
    /// Print the studies and their commands, without running them.
    #[arg(long)]
    list: bool,
    /// Fail if a study cannot run on this machine, instead of skipping it.
    #[arg(long)]
    require: bool,
    /// Path of the evbd to measure; by default, evbd is built in release mode.
    #[arg(long)]
    evbd: Option<PathBuf>,
    /// Path of the program `lab`; by default it is built when a study needs it.
    #[arg(long)]
    lab: Option<PathBuf>,
}

/// Runs the studies, and returns the exit code.
pub fn run(args: &StudiesArgs) -> Result<u8> {
    let root = checkout::root();
    let catalog = Catalog::read(&fs::read_to_string(root.join(CATALOG)).context(CATALOG)?)?;
    if args.check || args.fill {
        return check_pages(&root, &catalog, args.fill).map(|agree| u8::from(!agree));
    }
    let is_chosen = |study: &&Study| study.name.contains(&args.only);
    let chosen: Vec<&Study> = catalog.studies.iter().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no study's name contains `{}`; --list prints them", args.only);
    if args.list {
        chosen.iter().for_each(|study| println!("{:<24} {}", study.name, line(study, args.quick)));
        return Ok(0);
    }
    let out = root.join("target/studies");
    fs::create_dir_all(&out)?;
    let programs = Programs { evbd: checkout::evbd(args.evbd.as_deref())?, lab: args.lab.clone(), out };
    let began = Instant::now();
    let mut rows = Vec::new();
    for study in chosen {
        println!("\n=== {}: {}", study.name, line(study, args.quick));
        let started = Instant::now();
        let ended = measure(&programs, study, args.quick)
            .unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        if matches!(ended, Outcome::Passed(_)) && !args.quick {
            check_pages(&root, &catalog, true)?;
        }
        rows.push((&study.name, started.elapsed().as_secs_f64(), ended));
    }
    summary(&rows, began.elapsed().as_secs_f64(), args)
}

/// Outcome of a study, with the reason.
enum Outcome {
    Passed(String),
    Skipped,
    Failed(String),
}

/// Prints a table of the outcomes, and returns the exit code.
fn summary(rows: &[(&String, f64, Outcome)], took: f64, args: &StudiesArgs) -> Result<u8> {
    println!("\n{:<24} {:>9}  result", "study", "seconds");
    let (mut failed, mut skipped) = (0, 0);
    for (name, seconds, ended) in rows {
        let said = match ended {
            Outcome::Passed(remark) => format!("pass{remark}"),
            Outcome::Skipped => {
                skipped += 1;
                "SKIP: it says why above".to_owned()
            }
            Outcome::Failed(reason) => {
                failed += 1;
                format!("FAIL: {reason}")
            }
        };
        println!("{name:<24} {seconds:>9.1}  {said}");
    }
    println!("{:<24} {took:>9.1}  {failed} of {} failed, {skipped} skipped", "all", rows.len());
    if args.quick && took > QUICK {
        bail!("the short forms took {took:.0} s; all together must take less than {QUICK:.0} s");
    }
    Ok(match (failed, skipped) {
        (0, 0) => 0,
        (0, _) if !args.require => IN_PART,
        _ => 1,
    })
}

fn line(study: &Study, quick: bool) -> &str {
    if quick { &study.quick } else { &study.full }
}

/// Runs a study, and makes its picture and its tables. The full form stores the result in the
/// documentation.
fn measure(programs: &Programs, study: &Study, quick: bool) -> Result<Outcome> {
    let limit = if quick { BESIDE * study.quick_limit } else { study.full_limit };
    let (result, holds) = match programs.run(study, line(study, quick), limit)? {
        Ended::Measured { result, holds } => (result, holds),
        Ended::Skipped => return Ok(Outcome::Skipped),
    };
    let run = result::run(&study.name, line(study, quick), &programs.version()?, result);
    fs::write(programs.json(study), serde_json::to_string_pretty(&run)? + "\n")?;
    let kept = Kept::of_run(study, &run)?;
    if study.has_picture() {
        let svg = programs.svg(study);
        ensure!(fs::metadata(&svg).is_ok_and(|file| file.len() > 0), "no picture {}", svg.display());
    }
    for block in study.blocks.iter().filter(|block| !quick || !block.only_full) {
        let content = page::measured(study, block, &kept);
        println!("\n{}", content.with_context(|| format!("the block `{}`", block.name))?);
    }
    match (holds, quick && study.timed) {
        (false, false) => {
            let path = programs.json(study);
            return Ok(Outcome::Failed(format!(
                "a bound does not hold; the result is in {}",
                path.display()
            )));
        }
        (false, true) => {
            return Ok(Outcome::Passed(", but a bound that needs a quiet machine does not hold".into()));
        }
        (true, _) => {}
    }
    if !quick {
        store(programs, study, &kept)?;
    }
    Ok(Outcome::Passed(String::new()))
}

/// Stores what the repository keeps of a result, and the picture, in the documentation.
fn store(programs: &Programs, study: &Study, kept: &Kept) -> Result<()> {
    let root = checkout::root();
    for folder in [RESULTS, FIGURES] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join(RESULTS).join(format!("{}.csv", study.name)), kept.csv()?)?;
    if study.has_picture() {
        fs::copy(programs.svg(study), root.join(FIGURES).join(format!("{}.svg", study.name)))?;
    }
    Ok(())
}

/// Compares the pages with the stored results, or fills them. Returns true if all pages agree.
fn check_pages(root: &Path, catalog: &Catalog, fill: bool) -> Result<bool> {
    let stored = Stored::of(files(root, RESULTS)?.iter().map(|(path, text)| (&**path, &**text)))?;
    let mut agree = true;
    for (path, text) in files(root, PAGES)?.iter().filter(|(path, _)| path.ends_with(".md")) {
        let filled = page::filled(text, catalog, &stored).with_context(|| path.clone())?;
        if filled == *text {
            continue;
        }
        if fill {
            fs::write(root.join(path), filled)?;
            println!("{path}: filled");
        } else {
            agree = false;
            println!("{path}: does not agree with the results; `cargo xtask studies --fill` fills it");
        }
    }
    Ok(agree)
}

/// Returns the paths below `root` and the texts of the files in a folder, in the order of their
/// names.
fn files(root: &Path, folder: &str) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let name = entry.file_name();
            let path = format!("{}/{}", folder.trim_end_matches('/'), name.to_string_lossy());
            files.push((path, fs::read_to_string(entry.path())?));
        }
    }
    files.sort();
    Ok(files)
}
