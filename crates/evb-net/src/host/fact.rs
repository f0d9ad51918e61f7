//! A fact about the host, or why it is not known.

use std::{fmt, io, path::Path, str::FromStr};

/// A fact, or why it cannot be told.
pub type Fact<T> = Result<T, Unavailable>;

/// Reason why a fact cannot be read: the driver does not support it, permission is missing, or it
/// does not exist here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(String);

impl Unavailable {
    /// The reason, in words for people.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Describes the system's answer to the question named `what`.
    pub fn from_io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self(format!("{what}: {}", in_words(error)))
    }
}

/// The error's text, or what it means here.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY) => "not supported by this device's driver".to_owned(),
        Some(libc::EPERM | libc::EACCES) => "no permission: try as root".to_owned(),
        _ => error.to_string(),
    }
}

/// The trimmed text of a file of the kernel.
///
/// # Errors
/// The file is not there, or not for us.
pub fn text_of(path: impl AsRef<Path>) -> Fact<String> {
    let path = path.as_ref();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Unavailable::new(format!("this kernel has no {}", path.display())))
        }
        Err(error) => Err(Unavailable::from_io(path.display(), &error)),
    }
}

/// The words of a kernel setting by its sysctl name, such as `net.core.rmem_max`.
///
/// # Errors
/// This kernel (or this network namespace) has no such setting.
pub fn setting(name: &str) -> Fact<String> {
    text_of(Path::new("/proc/sys").join(name.replace('.', "/")))
}

/// Word number `index` of a kernel setting, as a number.
///
/// # Errors
/// As [`setting`]; or there is no such number in it.
pub fn setting_number<T: FromStr>(name: &str, index: usize) -> Fact<T> {
    let text = setting(name)?;
    let word = text.split_whitespace().nth(index).and_then(|word| word.parse().ok());
    word.ok_or_else(|| {
        Unavailable::new(format!("{name} is `{text}`, which does not have the expected numbers"))
    })
}
