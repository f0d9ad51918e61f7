//! The notices and licences of the software in a program, from the sources of its crates.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Release;

/// Name of the file with the notices.
const NAME: &str = "THIRD-PARTY.txt";
/// Manifest of evb-bench, which also contains all crates of evbd.
pub(super) const EVBD: &str = "crates/evb-bench/Cargo.toml";
/// Beginnings of the names of files with notices.
const FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Writes a file with the notices of everything that is in the program of this manifest.
pub(super) fn write(release: &Release, manifest: &str, folder: &Path) -> Result<()> {
    let mut text = text(&release.root, manifest)?;
    if manifest == EVBD {
        // The page of run control contains uPlot.
        text += &fs::read_to_string(release.root.join("crates/evb-daemon/src/control/page/uPlot.txt"))?;
    }
    fs::create_dir_all(folder)?;
    let path = folder.join(NAME);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// Returns the notices of all crates of other people in the program of this manifest. Crates with
/// equal notices share them.
fn text(root: &Path, manifest: &str) -> Result<String> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages(root, manifest)? {
        let of = |key: &str| package[key].as_str().unwrap_or_default();
        let about = format!("{} {}, {} ({})", of("name"), of("version"), of("license"), of("repository"));
        let folder = Path::new(of("manifest_path")).parent().context("a manifest is in a folder")?;
        let notices = notices(folder)?;
        ensure!(!(notices.is_empty() && of("license").is_empty()), "{about} states no licence");
        all.entry(notices).or_default().insert(about);
    }
    let mut text = String::from("The software of others in this program, with its notices and licences.\n");
    for (notices, crates) in all {
        text += &format!("\n{}\n", "-".repeat(80));
        crates.iter().for_each(|about| text += &format!("{about}\n"));
        text += &format!("\n{notices}");
    }
    Ok(text)
}

/// Returns the descriptions of the crates of other people that become part of the program.
fn packages(root: &Path, manifest: &str) -> Result<Vec<Value>> {
    let said = |arguments: &[&str]| {
        let mut command = checkout::cargo();
        command.args(arguments).args(["--locked", "--manifest-path", manifest]).current_dir(root);
        let output = command.output().context("cargo does not start")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let tree = said(&["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"])?;
    let parts: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let mut known: Value =
        serde_json::from_str(&said(&["metadata", "--format-version", "1", "--filter-platform", &platform])?)?;
    let list = known["packages"].as_array_mut().context("cargo metadata lists packages")?;
    let is_part = |package: &Value| {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap_or_default());
        // Packages of this repository have no source.
        package["source"].is_string()
            && parts.iter().any(|part| part.starts_with(&format!("{name} v{version}")))
    };
    Ok(list.drain(..).filter(|package| is_part(package)).collect())
}

/// Returns the contents of the files with notices in the folder of a crate.
fn notices(folder: &Path) -> Result<String> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && FILES.iter().any(|begin| name.starts_with(begin))
    };
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_one).collect();
    paths.sort();
    let texts: Result<Vec<String>> = paths
        .iter()
        .map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).trim().to_owned() + "\n"))
        .collect();
    Ok(texts?.join("\n"))
}
