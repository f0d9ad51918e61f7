//! The package for Debian and Ubuntu. Its content is listed in the manifest of evbd, for cargo-deb.

use std::{env, fs, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{Release, finish};

const MAINTAINER: &str = "evb developers <evb-daq@users.noreply.github.com>";

/// Writes the package of the staged files, on request compressed less.
pub(super) fn write(release: &Release, revision: u32, fast: bool) -> Result<()> {
    // A version that is no final one sorts before it: `0.1.0~rc.1`.
    let version = format!("{}-{revision}", release.version.replacen('-', "~", 1));
    fs::write(release.stage.join("changelog"), changelog(&version, &date(&release.time)?))?;
    let own = Command::new("gzip").arg("-9nc").arg(release.root.join("CHANGELOG.md")).output()?;
    ensure!(own.status.success(), "gzip: {}", own.status);
    fs::write(release.stage.join("changelog.gz"), own.stdout)?;
    let architecture = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let path = release.out.join(format!("evbd_{version}_{architecture}.deb"));
    let mut deb = release.tools.cargo("deb", "3.8.0")?;
    deb.args([
        "--package",
        "evb-daemon",
        "--no-build",
        "--no-strip",
        "--compress-system",
        "--deb-version",
        &version,
    ]);
    deb.args(["--maintainer", MAINTAINER]).arg("--output").arg(&path).args(fast.then_some("--fast"));
    finish(deb.current_dir(&release.root).env("SOURCE_DATE_EPOCH", &release.time))?;
    println!("{}", path.display());
    Ok(())
}

/// Returns the change log of the package in Debian's format; the log of evbd itself is beside it.
fn changelog(version: &str, date: &str) -> String {
    format!(
        "evbd ({version}) unstable; urgency=medium\n\n  \
         * Build of evbd; its changes are in /usr/share/doc/evbd/changelog.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}

/// Returns a time, in seconds since 1970, as mail programs write it.
fn date(seconds: &str) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", "--date"]).arg(format!("@{seconds}"));
    let output = date.output().context("date does not start")?;
    ensure!(output.status.success(), "date: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
