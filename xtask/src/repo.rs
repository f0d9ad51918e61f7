//! [`Repo`]: the files of the repository as the checks see them, with text and, for Rust, the
//! syntax tree.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Folders without files of this project, which the checks skip.
const SKIPPED: [&str; 7] = ["target", ".git", "out", "corpus", "artifacts", "node_modules", "__pycache__"];

/// Extensions of the files whose text the checks read; of other files, only the path is known.
const TEXT: [&str; 12] =
    ["rs", "md", "toml", "proto", "py", "sh", "yml", "yaml", "json", "csv", "txt", "lock"];

/// All files of a repository, sorted by path.
pub(crate) struct Repo {
    files: Vec<RepoFile>,
}

/// A file: its path relative to the root, with `/`, its text, and its syntax tree if it is Rust.
pub(crate) struct RepoFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) ast: Option<syn::File>,
}

impl RepoFile {
    /// Returns true if the file is a test: below a folder `tests`, named `tests.rs`, or with a name
    /// such as `model_tests.rs`.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
    }

    /// Returns true for a source file of a crate, as opposed to tests, examples, benches and fuzz
    /// targets.
    pub(crate) fn is_source(&self) -> bool {
        self.path.ends_with(".rs")
            && !self.is_test()
            && (self.path.starts_with("src/") || self.path.contains("/src/"))
            && !self.path.starts_with("benches/")
            && !self.path.starts_with("fuzz/")
    }
}

impl Repo {
    /// Reads all files below `root`.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        Self::load_part(root, "")
    }

    /// Reads the files in a folder below `root`.
    pub(crate) fn load_part(root: &Path, folder: &str) -> Result<Self> {
        let mut paths = Vec::new();
        let part = root.join(folder);
        walk(&part, &mut paths).with_context(|| format!("reading {}", part.display()))?;
        let mut files = Vec::new();
        for path in paths {
            let relative = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
            let known = Path::new(&relative).extension().is_none_or(|e| TEXT.iter().any(|t| e == *t));
            let text =
                if known { fs::read(&path).ok().and_then(|b| String::from_utf8(b).ok()) } else { None };
            files.push(Self::file(&relative, text.unwrap_or_default())?);
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Creates a repository of the given files, for tests of the checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| Self::file(path, (*text).to_owned()).expect("planted Rust parses"))
            .collect();
        Self { files }
    }

    fn file(path: &str, text: String) -> Result<RepoFile> {
        let ast = if path.ends_with(".rs") {
            let parsed = syn::parse_file(&text);
            Some(parsed.map_err(|e| anyhow::anyhow!("{path}:{}: not Rust: {e}", e.span().start().line))?)
        } else {
            None
        };
        Ok(RepoFile { path: path.to_owned(), text, ast })
    }

    pub(crate) fn files(&self) -> &[RepoFile] {
        &self.files
    }

    pub(crate) fn get(&self, path: &str) -> Option<&RepoFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns true if the repository has a file or a folder with this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.iter().any(|f| f.path == path || f.path.starts_with(&folder))
    }

    /// Returns the Rust files, each with its syntax tree.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&RepoFile, &syn::File)> {
        self.files.iter().filter_map(|file| file.ast.as_ref().map(|ast| (file, ast)))
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
