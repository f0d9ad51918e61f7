//! Lays out evbd and the files that accompany it: man pages, completions, units, examples,
//! documentation.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{Release, binary::Binary, copy, finish, notices};

/// Shells, and the path below `share` at which each one finds its completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/evbd"),
    ("zsh", "zsh/site-functions/_evbd"),
    ("fish", "fish/vendor_completions.d/evbd.fish"),
];
/// Files below `dist` and `examples` that a user copies and changes.
const EXAMPLES: [&str; 7] = [
    "examples/quickstart.toml",
    "examples/watch.toml",
    "dist/grafana/evb.json",
    "dist/prometheus/prometheus.yml",
    "dist/prometheus/evb.rules.yml",
    "dist/prometheus/alertmanager.yml",
    "dist/slurm/evb.sbatch",
];
const UNITS: [&str; 2] = ["evbd.service", "evbd@.service"];
const TEXTS: [&str; 5] = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Lays out all files in an empty folder, and returns it. Man pages and completions come from the
/// program itself.
pub(super) fn stage(release: &Release, evbd: &Binary) -> Result<PathBuf> {
    let tree = release.staged("tree")?;
    copy(&evbd.program, &tree.join("bin"), "evbd")?;
    copy(&evbd.bench, &tree.join("bin"), "evb-bench")?;
    let share = tree.join("share");
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    for program in [&evbd.program, &evbd.bench] {
        finish(Command::new(program).arg("man-pages").arg(&pages))?;
    }
    for (shell, path) in SHELLS {
        let path = share.join(path);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        let script = Command::new(&evbd.program).args(["completions", shell]).output()?;
        ensure!(script.status.success(), "evbd completions {shell}: {}", script.status);
        fs::write(path, script.stdout)?;
    }
    for path in EXAMPLES {
        let name = Path::new(path).file_name().context("a file has a name")?.to_string_lossy();
        copy(&release.root.join(path), &share.join("doc/evbd/examples"), &name)?;
    }
    for name in TEXTS {
        copy(&release.root.join(name), &share.join("doc/evbd"), name)?;
    }
    notices::write(release, notices::EVBD, &share.join("doc/evbd"))?;
    copy(&release.root.join("dist/evb.schema.json"), &share.join("evb"), "evb.schema.json")?;
    let units = tree.join("lib/systemd/system");
    fs::create_dir_all(&units)?;
    for name in UNITS {
        fs::write(units.join(name), unit(&fs::read_to_string(release.root.join("dist").join(name))?))?;
    }
    Ok(tree)
}

/// Returns a unit for a program that a package manager installs, instead of the administrator.
fn unit(text: &str) -> String {
    text.replace("/usr/local/bin/evbd", "/usr/bin/evbd")
}

#[cfg(test)]
mod tests;
