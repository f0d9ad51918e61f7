//! Compilers.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use lab_base::commands::run;

/// Compilation of one program with all warnings as errors.
pub(crate) struct Compilation<'a> {
    pub(crate) compiler: &'a str,
    pub(crate) standard: &'a str,
    pub(crate) source: &'a Path,
    /// The installed copy of evb.
    pub(crate) prefix: &'a Path,
    pub(crate) options: &'a [&'a str],
    pub(crate) program: PathBuf,
}

impl Compilation<'_> {
    /// Compiles and links the program with the shared library, and returns its path.
    pub(crate) fn run(&self) -> Result<&Path> {
        let (include, lib) = (self.prefix.join("include"), self.prefix.join("lib"));
        let mut compile = Command::new(self.compiler);
        compile.args([self.standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
        compile.args(self.options).arg("-I").arg(include).arg(self.source).arg("-o").arg(&self.program);
        compile.arg("-L").arg(&lib).arg("-levb").arg(format!("-Wl,-rpath,{}", lib.display()));
        run(&mut compile)?;
        Ok(&self.program)
    }
}
