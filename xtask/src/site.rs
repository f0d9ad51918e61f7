//! `cargo xtask site`: makes a website with a search field out of the Markdown pages as they are,
//! in `target/site`. mdbook writes the website; then every link of it is followed, and its search
//! is asked for the words that users look for.

mod stage;
mod html;
mod search;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use checkout::SKIPPED;
use clap::Args;

use crate::repo::Repo;

/// Version of mdbook, whose website and search index this module reads.
const MDBOOK: &str = "0.5.4";

/// Settings of mdbook. Without its preprocessors, it changes no text and no file name; without
/// playgrounds and edit links, the website needs no other server.
const BOOK: &str = r#"
[book]
title = "evb"
language = "en"

[build]
use-default-preprocessors = false
create-missing = false

[output.html]
smart-punctuation = false
no-section-label = true
playground.runnable = false
print.enable = false
fold.enable = true
search.limit-results = 20
search.boost-title = 4
"#;

#[derive(Args)]
pub(crate) struct SiteArgs {
    /// Fail if there is no mdbook and it cannot be installed, instead of skipping the website.
    #[arg(long)]
    require: bool,
}

/// Builds and checks the website, and returns the exit code: 0, 1 if a link or a word leads
/// nowhere, or [`SKIPPED`].
pub(crate) fn run(args: &SiteArgs) -> Result<u8> {
    let root = checkout::root();
    let mdbook = match mdbook(&root) {
        Ok(program) => program,
        Err(error) if !args.require => {
            println!(
                "SKIP: no website is made without mdbook {MDBOOK}, which cannot be installed: {error:#}"
            );
            return Ok(SKIPPED);
        }
        Err(error) => return Err(error),
    };
    let (staged, site) = (root.join("target/site-pages"), root.join("target/site"));
    for folder in [&staged, &site] {
        let _ = fs::remove_dir_all(folder);
    }
    let pages = stage::write(&Repo::load(&root)?, &root, &staged.join("src"))?;
    fs::write(staged.join("book.toml"), BOOK)?;
    let mut build = Command::new(mdbook);
    let built = build
        .arg("build")
        .arg(&staged)
        .arg("--dest-dir")
        .arg(&site)
        .output()
        .context("mdbook does not start")?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "mdbook fails with {}:\n{said}", built.status);
    let broken = html::broken(&site)?;
    let unknown = search::unknown(&site)?;
    for fault in broken.iter().chain(&unknown) {
        println!("{fault}");
    }
    println!("the website has {pages} pages: open {}", site.join("index.html").display());
    Ok(u8::from(!broken.is_empty() || !unknown.is_empty()))
}

/// Returns the path of mdbook in the version [`MDBOOK`]: one on the `PATH`, or one below
/// `target/tools`, where it is installed if it is not there.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let of_this_version = |said: String| said.trim() == format!("mdbook v{MDBOOK}");
    if checkout::said("mdbook", &["--version"]).is_some_and(of_this_version) {
        return Ok("mdbook".into());
    }
    let tools = root.join("target/tools");
    let folder = tools.join(format!("mdbook-{MDBOOK}"));
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        println!("installing mdbook {MDBOOK}, which takes some minutes");
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--debug", "--locked", "mdbook", "--version", MDBOOK]);
        // Without its web server, mdbook has half of the dependencies.
        cargo.args(["--no-default-features", "--features", "search"]).arg("--root").arg(&folder);
        let output = cargo.env("CARGO_TARGET_DIR", &tools).env("CARGO_PROFILE_DEV_DEBUG", "0").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cargo cannot install mdbook: {}", said.trim());
    }
    Ok(program)
}
