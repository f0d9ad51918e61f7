//! The package for Python, and the archive of the C and C++ bindings.

use std::process::Command;

use anyhow::Result;

use super::{
    Release,
    binary::{self, Libc},
    finish, notices, tarball,
};
use crate::sdk;

/// Writes the wheel of the Python package.
pub(super) fn wheel(release: &Release) -> Result<()> {
    notices::write(release, "bindings/python/Cargo.toml", &release.root.join("bindings/python/python/evb"))?;
    let mut maturin = release.tools.python("maturin");
    maturin.args(["build", "--release", "--locked", "--zig", "--compatibility", "manylinux_2_28", "--out"]);
    maturin.arg(&release.out).current_dir(release.root.join("bindings/python"));
    // The tests of the package build the wheel in the same folder.
    finish(maturin.env("CARGO_TARGET_DIR", release.root.join("target/python")))
}

/// Writes the archive of headers, libraries, and packages for CMake and pkg-config.
pub(super) fn sdk(release: &Release) -> Result<()> {
    let manifest = release.root.join(sdk::BINDINGS).join("Cargo.toml");
    let built = binary::build(release, Libc::Glibc, &manifest, &["--lib"])?;
    let name = format!("evb-sdk-{}-{}", release.version, Libc::Glibc.platform());
    let folder = release.staged("archive")?.join(name);
    let version = sdk::install(&built, &folder)?;
    notices::write(release, "bindings/c/Cargo.toml", &folder.join("share/doc/evb"))?;
    let lib = folder.join("lib");
    finish(Command::new("strip").arg("--strip-unneeded").arg(lib.join(format!("libevb.so.{version}"))))?;
    finish(Command::new("strip").arg("--strip-debug").arg(lib.join("libevb.a")))?;
    tarball::pack(release, &folder)
}
