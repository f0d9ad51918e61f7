//! Compares the C++ reader of event files, `evb_file.hpp`, with the Rust reader: both list the same
//! files, most of them damaged, and the listings must be equal. The C++ reader is compiled by two
//! compilers, with and without sanitizers.

mod listing;
pub mod program;
pub mod files;
pub mod golden;
mod speed;
mod page;

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use lab_base::needs::Need;

use self::program::Program;

pub const NEEDS: &[Need] =
    &[Need { program: "g++", package: "g++" }, Need { program: "clang++", package: "clang" }];

#[derive(Args)]
pub struct FileCppArgs {
    /// Number of files that are made and compared.
    #[arg(long, default_value_t = 10_000)]
    files: u64,
    /// Seed of the files; by default, it follows from the time.
    #[arg(long)]
    seed: Option<u64>,
    /// Write the golden files of the present version and their listing again, with the writer of
    /// this source tree.
    #[arg(long)]
    golden: bool,
    /// Instead of comparing, measure the speed of the C++ reader with a file of this many MB.
    #[arg(long)]
    speed: Option<u64>,
}

pub fn run(out: &Path, args: &FileCppArgs) -> Result<u8> {
    let folder = out.join("file-cpp");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if let Some(megabytes) = args.speed {
        return speed::measure(&folder, megabytes).map(|()| 0);
    }
    if args.golden {
        golden::write(&folder)?;
    }
    let seed = args.seed.unwrap_or_else(seed_of_now);
    println!("{} files of seed {seed}: --files {} --seed {seed} makes them again", args.files, args.files);
    let names = files::make(&folder, args.files, seed)?;
    let expected = listing::of_rust(&folder, &[&format!("@{}", names.display())])?;
    let counts = listing::Counts::of(&expected);
    println!("the Rust reader lists {counts}");
    ensure!(args.files < 1000 || counts.has_all(), "the files lack a kind of item, so they prove little");

    golden::check_rust()?;
    let programs = Program::all(&folder)?;
    for program in &programs {
        for options in program.options() {
            let found = program.list(Path::new("."), options, &[&format!("@{}", names.display())])?;
            listing::compare(&expected, &found)
                .with_context(|| format!("{program} {}", options.join(" ")))?;
            golden::check(program, options)?;
            println!("{program} {}: equal", options.join(" "));
        }
    }
    golden::check_standard_input(&programs[0])?;
    page::check(&folder)?;
    println!("all listings are equal");
    Ok(0)
}

pub fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}
