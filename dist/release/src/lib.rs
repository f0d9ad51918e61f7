//! `cargo xtask release`: writes the files that a release offers for download. Programs for older
//! systems are linked by Zig, which knows the symbols of every version of glibc.

pub mod sdk;
mod tools;
mod notices;
mod binary;
mod tree;
mod tarball;
mod deb;
mod image;
mod bindings;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use checkout::finish;
use clap::{Args, ValueEnum};
use toml::Table;

use self::{
    binary::{Binary, Libc},
    tools::Tools,
};

/// Arguments of `cargo xtask release`.
#[derive(Args)]
pub struct ReleaseArgs {
    /// File to write; can be given several times. By default, all files are written.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Revision of the Debian package, which rises if the package changes and evbd does not.
    #[arg(long, default_value_t = 1)]
    revision: u32,
    /// Compress the Debian package less, in a seventh of the time.
    #[arg(long)]
    fast: bool,
    /// Folder for the files; existing files of other parts stay.
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,
}

/// A file of a release.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Archive with evbd for systems with glibc 2.28 or newer.
    Glibc,
    /// Archive with a static evbd.
    Musl,
    /// Package for Debian and Ubuntu.
    Deb,
    /// Package for Python.
    Wheel,
    /// Archive with the C and C++ bindings.
    Sdk,
    /// Container image with the static evbd.
    Image,
    /// List of all crates in evbd.
    Sbom,
}

/// Settings that all parts share.
struct Release {
    root: PathBuf,
    /// Folder for the finished files.
    out: PathBuf,
    /// Folder for files that become parts of others.
    stage: PathBuf,
    version: String,
    /// Time of the commit, in seconds since 1970. All files have this time, so that the same commit
    /// gives the same archives.
    time: String,
    tools: Tools,
}

impl Release {
    fn new(args: &ReleaseArgs) -> Result<Self> {
        let root = checkout::root();
        let manifest: Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str().context("no version")?.to_owned();
        let time = checkout::said("git", &["-C", &root.to_string_lossy(), "log", "-1", "--format=%ct"])
            .context("git does not tell the time of the commit")?;
        fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
        // The manifest of evbd names this folder for cargo-deb, so it is fixed.
        let stage = root.join("target/dist-stage");
        let tools = Tools::install(&root.join("target/dist-tools"))?;
        Ok(Self { out: args.out.canonicalize()?, root, stage, version, time: time.trim().to_owned(), tools })
    }

    /// Creates an empty folder for files that become parts of others.
    fn staged(&self, name: &str) -> Result<PathBuf> {
        let folder = self.stage.join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// Writes the chosen files and their checksums. Returns true, or an error if a file cannot be
/// written.
///
/// # Errors
/// A tool cannot be installed, or a file cannot be built or written.
pub fn run(args: &ReleaseArgs) -> Result<bool> {
    let release = Release::new(args)?;
    let wanted = |part: Part| args.only.is_empty() || args.only.contains(&part);
    if wanted(Part::Glibc) || wanted(Part::Deb) {
        let evbd = Binary::build(&release, Libc::Glibc)?;
        let tree = tree::stage(&release, &evbd)?;
        if wanted(Part::Glibc) {
            tarball::write(&release, &evbd, &tree)?;
        }
        if wanted(Part::Deb) {
            deb::write(&release, args.revision, args.fast)?;
        }
    }
    if wanted(Part::Musl) || wanted(Part::Image) {
        let evbd = Binary::build(&release, Libc::Musl)?;
        let tree = tree::stage(&release, &evbd)?;
        if wanted(Part::Musl) {
            tarball::write(&release, &evbd, &tree)?;
        }
        if wanted(Part::Image) {
            image::write(&release, &evbd)?;
        }
    }
    if wanted(Part::Wheel) {
        bindings::wheel(&release)?;
    }
    if wanted(Part::Sdk) {
        bindings::sdk(&release)?;
    }
    if wanted(Part::Sbom) {
        sbom(&release)?;
    }
    sums(&release.out)?;
    Ok(true)
}

/// Writes the list of all crates in evbd, with their licences and origins, in the format of
/// CycloneDX.
fn sbom(release: &Release) -> Result<()> {
    let mut list = release.tools.cargo("sbom", "0.10.0")?;
    list.args(["--cargo-package", "evb-daemon", "--output-format", "cyclone_dx_json_1_4"]);
    let output = list.current_dir(&release.root).output().context("cargo-sbom does not start")?;
    ensure!(output.status.success(), "cargo-sbom: {}", String::from_utf8_lossy(&output.stderr));
    let path = release.out.join(format!("evbd-{}.cdx.json", release.version));
    fs::write(&path, output.stdout).with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

/// Writes the checksums of all files in the folder.
fn sums(out: &Path) -> Result<()> {
    const NAME: &str = "SHA256SUMS";
    let mut names = Vec::new();
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != NAME {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let output = Command::new("sha256sum").args(names).current_dir(out).output().context("sha256sum")?;
    ensure!(output.status.success(), "sha256sum: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(out.join(NAME), output.stdout)?;
    Ok(())
}

/// Copies a file into a folder, which is created if necessary, under a new name.
fn copy(from: &Path, folder: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::copy(from, folder.join(name)).with_context(|| from.display().to_string())?;
    Ok(())
}
