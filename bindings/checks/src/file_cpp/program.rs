//! The C++ program that lists event files, compiled in several ways.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result};

use super::listing::said;

/// The source of the program.
const SOURCE: &str = "bindings/c/tests/file/listing.cpp";
/// Warnings that a user may have turned into errors.
const STRICT: [&str; 5] = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror"];
const SANITIZED: [&str; 4] = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// A compiled program, and how it was compiled.
pub(crate) struct Program {
    path: PathBuf,
    compiler: &'static str,
    flags: Vec<&'static str>,
}

impl Program {
    /// Compiles the program in every way.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let ways: [(&'static str, &'static str, &[&'static str]); 5] = [
            ("g++", "-std=c++17", &["-O2"]),
            ("clang++", "-std=c++17", &["-O2"]),
            ("g++", "-std=c++20", &["-O2", "-DEVB_FILE_PORTABLE_CRC"]),
            ("g++", "-std=c++17", &SANITIZED),
            ("clang++", "-std=c++20", &SANITIZED),
        ];
        let program = |number: usize| Self::compiled(folder, number, ways[number]);
        let program = &program;
        thread::scope(|scope| {
            let compiling: Vec<_> =
                (0..ways.len()).map(|number| scope.spawn(move || program(number))).collect();
            compiling
                .into_iter()
                .map(|one| one.join().ok().context("a thread that compiles has panicked")?)
                .collect()
        })
    }

    /// Compiles the program as most users would, or takes what the comparison with the Rust reader
    /// has compiled. `out` is the folder of all parts.
    pub(crate) fn plain(out: &Path) -> Result<Self> {
        let (folder, way): (_, (_, _, &'static [&'static str])) =
            (out.join("file-cpp"), ("g++", "-std=c++17", &["-O2"]));
        let age = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        let sources = [SOURCE, "bindings/c/include/evb_file.hpp"].map(|path| checkout::root().join(path));
        let path = folder.join("listing-0");
        if age(&path) > sources.iter().filter_map(|source| age(source)).max() {
            return Ok(Self { path, compiler: way.0, flags: [&[way.1], way.2].concat() });
        }
        fs::create_dir_all(&folder)?;
        Self::compiled(&folder, 0, way)
    }

    fn compiled(
        folder: &Path,
        number: usize,
        (compiler, standard, flags): (&'static str, &'static str, &[&'static str]),
    ) -> Result<Self> {
        let flags = [&[standard], flags].concat();
        let path = folder.join(format!("listing-{number}"));
        compile(compiler, &flags, &checkout::root().join(SOURCE), &path)?;
        Ok(Self { path, compiler, flags })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the sets of options with which the program must print the same.
    pub(super) fn options(&self) -> &'static [&'static [&'static str]] {
        &[&[], &["--no-map"]]
    }

    /// Returns the program's listing of the given paths, which are relative to `folder` or
    /// absolute.
    pub(super) fn list(&self, folder: &Path, options: &[&str], paths: &[&str]) -> Result<String> {
        said(Command::new(&self.path).args(options).args(paths).current_dir(folder))
    }

    /// Returns the program's listing of a file that is sent through a pipe.
    pub(super) fn list_piped(&self, file: &Path) -> Result<String> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        let mut child =
            Command::new(&self.path).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut pipe = child.stdin.take().context("the program has no standard input")?;
        let writer = thread::spawn(move || std::io::Write::write_all(&mut pipe, &bytes));
        let output = child.wait_with_output()?;
        writer.join().ok().context("the thread that writes has panicked")??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.compiler, self.flags.join(" "))
    }
}

/// Compiles a program that includes `evb_file.hpp`.
pub(super) fn compile(compiler: &str, flags: &[&str], source: &Path, into: &Path) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(flags).args(STRICT).arg("-I").arg(checkout::root().join("bindings/c/include"));
    said(command.arg(source).arg("-o").arg(into)).map(drop)
}
