//! Archives of programs for systems without a package.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{Release, binary::Binary, copy, finish};

/// Writes the archive of a program with the files that accompany it, and the archive of its debug
/// symbols.
pub(super) fn write(release: &Release, evbd: &Binary, tree: &Path) -> Result<()> {
    let name = format!("evbd-{}-{}", release.version, evbd.libc.platform());
    let folder = release.staged("archive")?.join(&name);
    fs::create_dir_all(&folder)?;
    finish(Command::new("cp").arg("-a").arg(tree.join(".")).arg(&folder))?;
    pack(release, &folder)?;
    let symbols = release.staged("archive")?.join(format!("{name}-debug"));
    copy(&evbd.symbols, &symbols, "evbd.debug")?;
    pack(release, &symbols)
}

/// Packs a folder into an archive with the folder's name. The archive depends only on the content
/// of the files and on the commit.
pub(super) fn pack(release: &Release, folder: &Path) -> Result<()> {
    let name = folder.file_name().context("a folder has a name")?.to_string_lossy();
    let archive = release.out.join(format!("{name}.tar.gz"));
    let mut tar = tar(release);
    tar.args(["--owner=0", "--group=0", "--create", "--use-compress-program=gzip -n", "--file"]);
    tar.arg(&archive).arg("-C").arg(folder.parent().context("a folder is in a folder")?).arg(&*name);
    finish(&mut tar)?;
    println!("{}", archive.display());
    Ok(())
}

/// Returns a command that starts `tar` with the options that make archives reproducible.
pub(super) fn tar(release: &Release) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--mode=u+rw,go+r,go-w"]);
    tar.arg(format!("--mtime=@{}", release.time));
    tar
}
