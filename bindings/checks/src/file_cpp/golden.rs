//! The golden files: small event files of every version of the format, which every later version of
//! evb must read in the same way. They are committed, with their listings. Those of version 1 are
//! never written again.

mod made;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{
    listing::{compare, of_rust},
    program::Program,
};

/// The golden files of one version.
struct Set {
    /// The folder of the set, next to the C++ tests.
    name: &'static str,
    folders: &'static [&'static str],
}

const FIRST: Set = Set { name: "golden", folders: &["clean", "damaged"] };
const SECOND: Set = Set {
    name: "golden-2",
    folders: &["alignment", "changes", "clean", "damaged", "recovered", "refused", "sections", "two-runs"],
};

impl Set {
    fn folder(&self) -> PathBuf {
        checkout::root().join("bindings/c/tests/file").join(self.name)
    }

    fn listing(&self) -> Result<String> {
        let path = self.folder().join("listing.txt");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

/// Returns a golden file of the present version.
pub(super) fn example() -> PathBuf {
    SECOND.folder().join("clean/run000007_b01_0000.evb")
}

/// Returns the paths of all golden files.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let folders = [FIRST, SECOND]
        .into_iter()
        .flat_map(|set| set.folders.iter().map(move |name| set.folder().join(name)));
    let mut files = Vec::new();
    for folder in folders {
        files.append(&mut evb_file::files_at(&folder)?);
    }
    Ok(files)
}

/// Writes the golden files of the present version and their listing.
pub(super) fn write(scratch: &Path) -> Result<()> {
    for name in SECOND.folders {
        let (made, kept) = (scratch.join(name), SECOND.folder().join(name));
        fs::create_dir_all(&made)?;
        made::folder(name, &made)?;
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept)?;
        for file in evb_file::files_at(&made)? {
            fs::copy(&file, kept.join(file.file_name().context("a file without a name")?))?;
        }
    }
    let listing = of_rust(&SECOND.folder(), SECOND.folders)?;
    Ok(fs::write(SECOND.folder().join("listing.txt"), listing)?)
}

/// Checks that the Rust reader still lists the golden files as it did when they were written.
pub(super) fn check_rust() -> Result<()> {
    for set in [FIRST, SECOND] {
        compare(&set.listing()?, &of_rust(&set.folder(), set.folders)?).context("golden files")?;
    }
    Ok(())
}

/// Checks that a C++ program lists the golden files as the Rust reader does.
pub(super) fn check(program: &Program, options: &[&str]) -> Result<()> {
    for set in [FIRST, SECOND] {
        compare(&set.listing()?, &program.list(&set.folder(), options, set.folders)?)
            .with_context(|| format!("{}, {program}", set.name))?;
    }
    Ok(())
}

/// Checks that a C++ program lists a file on standard input as it lists the file itself.
pub(super) fn check_standard_input(program: &Program) -> Result<()> {
    for folder in FIRST.folders.iter().map(|name| FIRST.folder().join(name)) {
        for file in evb_file::files_at(&folder)? {
            let path = file.to_string_lossy();
            let named = program.list(Path::new("."), &[], &[&path])?;
            let (before_verify, _) = named.split_once("verify\n").context("a listing without `verify`")?;
            let expected = before_verify.replace(&*path, "-");
            compare(&expected, &program.list_piped(&file)?)
                .with_context(|| format!("standard input: {path}"))?;
        }
    }
    Ok(())
}
