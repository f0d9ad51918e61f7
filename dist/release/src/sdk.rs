//! `cargo xtask sdk`: builds the C and C++ bindings, and installs what a C or C++ program needs:
//! headers, shared and static library, and the packages for CMake and pkg-config. The folder can be
//! moved afterwards.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use toml::Table;

/// Folder of the bindings, which do not belong to the workspace.
pub(crate) const BINDINGS: &str = "bindings/c";
/// Name under which the dynamic linker finds the shared library; `build.rs` of the bindings writes
/// it into the library.
const SONAME: &str = "libevb.so.0";

/// Arguments of `cargo xtask sdk`.
#[derive(Args)]
pub struct SdkArgs {
    /// Folder to install into; it is created if necessary.
    #[arg(long)]
    prefix: PathBuf,
    /// Build without optimization, which takes less time.
    #[arg(long)]
    debug: bool,
    /// Features of the bindings to build with, for tests.
    #[arg(long, hide = true)]
    features: Option<String>,
}

/// Builds and installs. Returns true, or an error if a file cannot be built or written.
///
/// # Errors
/// The bindings do not build, or a file cannot be written.
pub fn run(args: &SdkArgs) -> Result<bool> {
    let root = checkout::root();
    let bindings = root.join(BINDINGS);
    let target = checkout::target();
    build(&bindings, &target, args)?;
    let built = target.join(if args.debug { "debug" } else { "release" });
    let version = install(&built, &args.prefix)?;
    println!("evb {version} for C and C++ is in {}", args.prefix.display());
    Ok(true)
}

/// Installs the libraries from the folder `built`, and everything else from the repository. Returns
/// the version of the bindings.
pub(crate) fn install(built: &Path, prefix: &Path) -> Result<String> {
    let root = checkout::root();
    let bindings = root.join(BINDINGS);
    let manifest: Table = fs::read_to_string(bindings.join("Cargo.toml"))?.parse()?;
    let version = manifest["package"]["version"].as_str().context("the bindings have a version")?;
    libraries(built, &prefix.join("lib"), version)?;
    headers(&bindings.join("include"), &prefix.join("include"))?;
    packages(&bindings.join("cmake"), &prefix.join("lib"), version)?;
    let licences = prefix.join("share/doc/evb");
    fs::create_dir_all(&licences)?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root.join(name), &licences.join(name))?;
    }
    Ok(version.to_owned())
}

fn build(bindings: &Path, target: &Path, args: &SdkArgs) -> Result<()> {
    let mut cargo = checkout::cargo();
    cargo.args(["build", "--quiet", "--locked", "--lib", "--manifest-path"]).arg(bindings.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    cargo.args((!args.debug).then_some("--release"));
    cargo.args(args.features.iter().flat_map(|features| ["--features", features]));
    let status = cargo.status().context("cargo does not start")?;
    ensure!(status.success(), "the bindings do not build");
    Ok(())
}

/// Installs the libraries, and the links by which linkers find the shared one.
fn libraries(built: &Path, lib: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(lib).with_context(|| lib.display().to_string())?;
    let real = format!("libevb.so.{version}");
    copy(&built.join("libevb.so"), &lib.join(&real))?;
    copy(&built.join("libevb.a"), &lib.join("libevb.a"))?;
    for (link, to) in [(SONAME, real.as_str()), ("libevb.so", SONAME)] {
        let link = lib.join(link);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => symlink(to, &link),
        }
        .with_context(|| link.display().to_string())?;
    }
    Ok(())
}

fn headers(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    for entry in fs::read_dir(from)? {
        let header = entry?;
        copy(&header.path(), &into.join(header.file_name()))?;
    }
    Ok(())
}

/// Installs the packages for CMake and pkg-config.
fn packages(from: &Path, lib: &Path, version: &str) -> Result<()> {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    for (name, folder) in [
        ("evbConfig.cmake", "cmake/evb"),
        ("evbConfigVersion.cmake.in", "cmake/evb"),
        ("evb.pc.in", "pkgconfig"),
    ] {
        let path = from.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = text.replace("@VERSION@", version).replace("@MAJOR@", major).replace("@MINOR@", minor);
        let folder = lib.join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name.trim_end_matches(".in")), text)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests;
