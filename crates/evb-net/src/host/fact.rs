//! A fact about the host, or why it is not known.

use std::{fmt, io, path::Path, str::FromStr};

/// A fact about this host, or the reason why it is not available.
pub type Fact<T> = Result<T, Unavailable>;

/// Reason why a fact about this host cannot be read: the driver does not support the question,
/// permission is missing, or this system lacks the setting or device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Unavailable {
    /// Creates the reason from a readable text.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Creates the reason from the operating system's error for the question named `what`.
    pub fn from_io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self(format!("{what}: {}", in_words(error)))
    }
}

/// Returns the error's text, or a clearer text for errors that mean a missing permission or a
/// driver without support.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY) => {
            "this device's driver does not tell: evb works without it, and nothing needs to be done"
                .to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => "no permission: try as root".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => format!("{error}: raise `ulimit -n`, and check again"),
        _ => format!("{error}: evb runs without this check, and the others do not need it"),
    }
}

/// Returns the trimmed text of a file that the kernel provides, such as a file below `/proc`.
///
/// # Errors
/// Fails if the file does not exist, or if this process may not read it.
pub fn text_of(path: impl AsRef<Path>) -> Fact<String> {
    let path = path.as_ref();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unavailable::new(format!(
            "this kernel has no {}; the other checks do not need it",
            path.display()
        ))),
        Err(error) => Err(Unavailable::from_io(path.display(), &error)),
    }
}

/// Returns the text of the kernel setting with the given sysctl name, such as `net.core.rmem_max`.
///
/// # Errors
/// Fails if this kernel (or this network namespace) has no such setting.
pub fn setting(name: &str) -> Fact<String> {
    text_of(Path::new("/proc/sys").join(name.replace('.', "/")))
}

/// Returns word number `index`, counted from 0, of a kernel setting as a number.
///
/// # Errors
/// Fails as [`setting`] does, or if the setting has no such word or the word is not a number.
pub fn setting_number<T: FromStr>(name: &str, index: usize) -> Fact<T> {
    let text = setting(name)?;
    let word = text.split_whitespace().nth(index).and_then(|word| word.parse().ok());
    word.ok_or_else(|| {
        Unavailable::new(format!(
            "{name} is `{text}`, which does not have the expected numbers; report this as a fault of evb"
        ))
    })
}
