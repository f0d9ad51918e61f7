//! [`Krate`]: the crates of the workspace, with their folders and manifests.

use toml::Table;

use crate::repo::Repo;

/// Folders of the packages with which this repository checks itself.
const OF_THE_CHECKS: [&str; 9] = [
    "bindings/checks",
    "dist/checks",
    "dist/release",
    "lab",
    "lab/base",
    "studies",
    "studies/papers",
    "xtask",
    "xtask/checkout",
];

/// A crate of the workspace.
pub(crate) struct Krate<'a> {
    pub(crate) name: String,
    /// Folder relative to the root, with a closing `/`; empty for the root package.
    pub(crate) folder: String,
    pub(crate) manifest_path: &'a str,
    pub(crate) manifest: Table,
}

impl Krate<'_> {
    /// Returns the name of the crate as an identifier, with `_` for `-`.
    pub(crate) fn ident(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns the root file of the crate: `lib.rs` if it exists, otherwise `main.rs`.
    pub(crate) fn root_file<'r>(&self, repo: &'r Repo) -> Option<&'r crate::repo::RepoFile> {
        let lib = repo.get(&format!("{}src/lib.rs", self.folder));
        lib.or_else(|| repo.get(&format!("{}src/main.rs", self.folder)))
    }
}

/// Returns the packages of the workspace, which do not include `benches/peers` and `fuzz`.
pub(crate) fn crates(repo: &Repo) -> Vec<Krate<'_>> {
    let manifests = repo.files().iter().filter(|file| {
        let path = file.path.as_str();
        path == "Cargo.toml"
            || path
                .strip_suffix("/Cargo.toml")
                .is_some_and(|folder| folder.starts_with("crates/") || OF_THE_CHECKS.contains(&folder))
    });
    manifests
        .filter_map(|file| {
            let manifest: Table = file.text.parse().ok()?;
            let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
            let folder = file.path.trim_end_matches("Cargo.toml").to_owned();
            Some(Krate { name, folder, manifest_path: &file.path, manifest })
        })
        .collect()
}
