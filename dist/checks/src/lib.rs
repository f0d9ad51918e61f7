//! Tests the files of a release as their users get them: which systems they run on, how fast they
//! are, what a Debian system does with the package, what a container runtime does with the image,
//! what shells complete, and what an editor knows about a configuration.

mod release;
mod programs;
mod speed;
mod shells;
mod schema;
mod debian;
mod image;

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use lab_base::{alone, commands::run as execute, needs::Need, report::Report, setting::Setting};

use self::release::Files;

/// The programs that these checks need.
pub const NEEDS: &[Need] = &[
    alone::UNSHARE,
    alone::IP,
    Need { program: "python3", package: "python3" },
    Need { program: "objdump", package: "binutils" },
    Need { program: "debootstrap", package: "debootstrap" },
    Need { program: "dpkg-deb", package: "dpkg-dev" },
    Need { program: "lintian", package: "lintian" },
    Need { program: "umoci", package: "umoci" },
    Need { program: "runc", package: "runc" },
    Need { program: "bash", package: "bash" },
    Need { program: "zsh", package: "zsh" },
];

/// Arguments of `cargo xtask eco packages`.
#[derive(Args)]
pub struct PackagesArgs {
    /// Check to run; can be given several times. By default, all checks run.
    #[arg(long, value_enum)]
    only: Vec<Check>,
    /// Number of rounds in which the programs take turns, for their rates.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Time for which each program builds events in a round, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Test the files that an earlier test has built, instead of building them.
    #[arg(long)]
    built: bool,
    /// Build the files without optimization and those that need the C library of the system not at
    /// all, compare no rates, and test only a part of the changed configurations.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Symbols of glibc that the programs need.
    Programs,
    /// Rates of the programs, compared with the ordinary build.
    Speed,
    /// Completions in bash and zsh.
    Shells,
    /// The schema of the configuration, compared with the reader.
    Schema,
    /// The package in a fresh Debian system.
    Debian,
    /// The container image.
    Image,
}

/// Runs the checks, and returns 0 if all passed, else 1.
pub fn run(setting: &Setting, args: &PackagesArgs) -> Result<u8> {
    let wanted = |check: Check| args.only.is_empty() || args.only.contains(&check);
    let folder = setting.folder("packages")?;
    let mut report = Report::bare("packages");
    if wanted(Check::Schema) {
        schema::check(setting, args.quick, &folder, &mut report)?;
    }
    if args.only == [Check::Schema] {
        return Ok(u8::from(!report.finish(&setting.out)?));
    }
    let files = thread::scope(|scope| {
        // The mirror sends the Debian system while the files are built.
        let fresh = wanted(Check::Debian).then(|| scope.spawn(|| debian::fetch(&setting.out)));
        let files = setting.out.join("packages-files");
        let files =
            if args.built { Files::find(&files, args.quick)? } else { Files::build(&files, args.quick)? };
        match fresh.map(thread::ScopedJoinHandle::join) {
            Some(Ok(fetched)) => fetched?,
            Some(Err(_)) => bail!("the thread that fetches Debian has panicked"),
            None => {}
        }
        anyhow::Ok(files)
    })?;
    if wanted(Check::Programs) {
        programs::check(&files, &folder, &mut report)?;
    }
    if wanted(Check::Shells) {
        shells::check(&files, &folder, &mut report)?;
    }
    if wanted(Check::Debian) {
        debian::check(&files, &setting.out, &folder, &mut report)?;
    }
    if wanted(Check::Image) {
        image::check(&files, args.quick, &folder, &mut report)?;
    }
    if wanted(Check::Speed) && !args.quick {
        speed::check(setting, &files, args, &folder, &mut report)?;
    }
    Ok(u8::from(!report.finish(&setting.out)?))
}

/// Unpacks an archive, and returns the only folder in it.
fn unpack(archive: &Path, folder: &Path) -> Result<PathBuf> {
    let name = archive.file_name().and_then(|name| name.to_str()).context("an archive has a name")?;
    execute(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder))?;
    Ok(folder.join(name.trim_end_matches(".tar.gz")))
}

#[cfg(test)]
mod tests;
