//! The program in the guide for C++, which must compile and run as it is printed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{golden, listing::said, program::compile};

const PAGE: &str = "docs/how-to/read-files-cpp.md";

/// Compiles the first program of the page, and runs it on a golden file.
pub(super) fn check(scratch: &Path) -> Result<()> {
    let page = fs::read_to_string(checkout::root().join(PAGE)).context(PAGE)?;
    let program = page
        .split_once("```cpp\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(program, _)| program)
        .with_context(|| format!("{PAGE} has no program"))?;
    let (source, path) = (scratch.join("page.cpp"), scratch.join("page"));
    fs::write(&source, program)?;
    compile("g++", &["-std=c++17", "-O2"], &source, &path).context(PAGE)?;
    let text = said(Command::new(path).arg(golden::example()))?;
    anyhow::ensure!(text.contains("event 2\n  source 1 at 513: 3 bytes"), "{PAGE} prints {text}");
    println!("{PAGE}: its program reads a file");
    Ok(())
}
