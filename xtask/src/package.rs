//! Packages the crates as a registry would serve them, and checks that the packaged files suffice
//! to build. Each crate is unpacked into a temporary workspace that has the profiles and the lock
//! file of this workspace, so that third-party crates need not be built again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use checkout::finish;
use toml::Table;

/// Packages of the workspace that only check this repository.
const NOT_PUBLISHED: [&str; 10] = [
    "bindings-checks",
    "checkout",
    "dist-checks",
    "evb-needs",
    "lab",
    "lab-base",
    "papers",
    "release",
    "studies",
    "xtask",
];

/// Packages all crates that are published, and checks that they build. Returns true, or an error if
/// a crate fails.
pub(crate) fn run() -> Result<bool> {
    let root = checkout::root();
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("this program is in no target folder")?;
    let folder = target.join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let apart = NOT_PUBLISHED.iter().flat_map(|name| ["--exclude", name]);
    let mut package = cargo(&root);
    package.args(["package", "--workspace", "--allow-dirty", "--no-verify", "--quiet"]).args(apart);
    finish(package.arg("--target-dir").arg(&folder))?;
    let crates = unpack(&folder)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let ours: Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let beside = stand_in(&fs::read_to_string(root.join("xtask/Cargo.toml"))?.parse()?, &folder)?;
    fs::write(folder.join("Cargo.toml"), manifest(&crates, &beside, &ours).to_string())?;
    println!("packaged: {}", crates.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "));
    finish(cargo(&folder).args(["check", "--workspace", "--target-dir"]).arg(target))?;
    Ok(true)
}

fn cargo(folder: &Path) -> Command {
    let mut cargo = checkout::cargo();
    cargo.current_dir(folder);
    cargo
}

/// Unpacks all packaged crates below `folder`, and returns name and folder of each.
fn unpack(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut crates = Vec::new();
    for entry in fs::read_dir(folder.join("package"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "crate") {
            // `--touch` gives the files the current time, because cargo would consider files with
            // the old date of the archive unchanged.
            let touched = ["--extract", "--touch", "--gzip", "--directory"];
            finish(Command::new("tar").args(touched).arg(folder).arg("--file").arg(&path))?;
            let unpacked = folder.join(path.file_stem().context("a crate has a name")?);
            let manifest: Table = fs::read_to_string(unpacked.join("Cargo.toml"))?.parse()?;
            let name = manifest["package"]["name"].as_str().context("a package has a name")?;
            crates.push((name.to_owned(), unpacked));
        }
    }
    ensure!(!crates.is_empty(), "`cargo package` made no crate in {}", folder.display());
    crates.sort();
    Ok(crates)
}

/// Writes an empty crate with the build dependencies of xtask, which is not packaged itself. The
/// dependencies make cargo select the same features for procedural macros as in this workspace, so
/// that the macros need not be built again.
fn stand_in(xtask: &Table, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("stand-in");
    fs::create_dir_all(path.join("src"))?;
    fs::write(path.join("src/lib.rs"), "")?;
    let package = [("name", "stand-in"), ("version", "0.0.0"), ("edition", "2024")];
    let package = Table::from_iter(package.map(|(key, value)| (key.to_owned(), value.into())));
    let mut manifest = Table::from_iter([("package".to_owned(), package.into())]);
    manifest
        .extend(xtask.get_key_value("build-dependencies").map(|(key, value)| (key.clone(), value.clone())));
    fs::write(path.join("Cargo.toml"), manifest.to_string())?;
    Ok(path)
}

/// Returns the manifest of a workspace with the packaged crates and the crate `beside`, in which
/// the packaged crates replace those of the registry.
fn manifest(crates: &[(String, PathBuf)], beside: &Path, ours: &Table) -> Table {
    let path = |path: &Path| toml::Value::String(path.to_string_lossy().into_owned());
    let patches: Table = crates
        .iter()
        .map(|(name, folder)| (name.clone(), Table::from_iter([("path".to_owned(), path(folder))]).into()))
        .collect();
    let members = crates.iter().map(|(_, folder)| path(folder)).chain([path(beside)]);
    let members: Vec<toml::Value> = members.collect();
    let workspace = Table::from_iter([
        ("members".to_owned(), members.into()),
        ("resolver".to_owned(), ours["workspace"]["resolver"].clone()),
    ]);
    let patch = Table::from_iter([("crates-io".to_owned(), patches.into())]);
    let mut manifest =
        Table::from_iter([("workspace".to_owned(), workspace.into()), ("patch".to_owned(), patch.into())]);
    manifest.extend(ours.get("profile").map(|profile| ("profile".to_owned(), profile.clone())));
    manifest
}

#[cfg(test)]
mod tests;
