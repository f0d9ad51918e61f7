//! [`PresharedKey`]: 32 bytes that all peers of a system share, and the file that they come from.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use zeroize::Zeroizing;

use super::secret::{SecretError, open_secret};

/// Length of a key in bytes.
pub const KEY_LENGTH: usize = 32;

/// Maximum number of bytes that are read from a key file; every valid key file is shorter.
const FILE_LIMIT: u64 = 4096;

/// A key that all peers of a system share. Clones share the key's memory, which is wiped when the
/// last clone is dropped; the key is never displayed.
///
/// ```
/// use evb_net::security::PresharedKey;
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("evb.key");
/// PresharedKey::generate()?.write_new(&path)?; // once, as `evbd keygen` does
/// let key = PresharedKey::read(&path)?; // on each host, from a copy of the file
/// assert!(!format!("{key:?}").contains(std::fs::read_to_string(&path)?.trim()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PresharedKey(Arc<Zeroizing<[u8; KEY_LENGTH]>>);

/// Reason why a key cannot be read or created.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file cannot be read, or others may read or change it.
    #[error("the key file cannot be used: {}{}", .0, way_out(.0))]
    File(#[from] SecretError),
    /// The content of the key file is not 32 bytes in hex or base64.
    #[error(
        "the key file {} does not hold a key (64 hex digits, or 32 bytes in base64); copy the key file of this system here, or make a new one for all hosts with `evbd keygen FILE`",
        .0.display()
    )]
    Form(PathBuf),
    /// All bytes of the key are equal, so it is easy to guess.
    #[error("the key file {} holds one byte repeated, which is easy to guess; make a random key for all hosts with `evbd keygen FILE`", .0.display())]
    Weak(PathBuf),
    /// The key file cannot be created.
    #[error("cannot make the key file {}: {reason}; give a new file in a directory to which this user can write", path.display())]
    Write {
        /// Path of the key file.
        path: PathBuf,
        /// Error that the operating system reported.
        reason: io::Error,
    },
    /// The operating system provides no random bytes.
    #[error(
        "the operating system gives no random bytes for a key: {0}; try again, and look at the log of the kernel (`dmesg`)"
    )]
    Random(getrandom::Error),
}

/// Returns what to do about a key file, unless the error says it.
fn way_out(error: &SecretError) -> &'static str {
    match error {
        SecretError::Read { .. } | SecretError::NotAFile(_) => {
            "; give this user a copy of the system's key file, or make one with `evbd keygen FILE`"
        }
        SecretError::Mode { .. } | SecretError::Owner { .. } => "",
    }
}

impl PresharedKey {
    /// Creates a key from the given bytes.
    pub fn new(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// Creates a key of random bytes from the operating system.
    ///
    /// # Errors
    /// [`KeyError::Random`] if the system provides no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_LENGTH];
        getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
        Ok(Self::new(bytes))
    }

    /// Reads a key: 64 hex digits or 32 bytes in base64 (RFC 4648 §4), with white space around.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_ascii();
        let bytes = if text.len() == 2 * KEY_LENGTH { from_hex(text) } else { from_base64(text) };
        bytes.map(Self::new)
    }

    /// Reads the key from a file that passes [`open_secret`].
    ///
    /// # Errors
    /// Returns a [`KeyError`], whose text names the remedy.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let fault = |reason| SecretError::Read { path: path.to_owned(), reason };
        let file = open_secret(path)?;
        let mut text = Zeroizing::new(String::new());
        file.take(FILE_LIMIT).read_to_string(&mut text).map_err(fault)?;
        let key = Self::parse(&text).ok_or_else(|| KeyError::Form(path.to_owned()))?;
        if key.0.iter().all(|byte| *byte == key.0[0]) {
            return Err(KeyError::Weak(path.to_owned()));
        }
        Ok(key)
    }

    /// Creates a file that contains this key and that only its owner may read. An existing file is
    /// left unchanged.
    ///
    /// # Errors
    /// [`KeyError::Write`] if the file cannot be created.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let fault = |reason| KeyError::Write { path: path.to_owned(), reason };
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(fault)?;
        let mut text = Zeroizing::new(String::with_capacity(2 * KEY_LENGTH + 1));
        for byte in self.0.iter() {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
        }
        text.push('\n');
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }
}

/// Reads a key of hexadecimal digits; `None` if there is another character.
fn from_hex(text: &str) -> Option<[u8; KEY_LENGTH]> {
    let mut bytes = [0; KEY_LENGTH];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
        let digit = |at: u8| char::from(at).to_digit(16);
        *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
    }
    Some(bytes)
}

/// Decodes a key from 43 digits in base64 and an optional `=`.
fn from_base64(text: &str) -> Option<[u8; KEY_LENGTH]> {
    let digits = text.strip_suffix('=').unwrap_or(text).as_bytes();
    if digits.len() != 43 {
        return None;
    }
    let mut bytes = [0; KEY_LENGTH];
    let (mut bits, mut count, mut filled) = (0u32, 0, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            *bytes.get_mut(filled)? = (bits >> count) as u8;
            filled += 1;
            bits &= (1 << count) - 1;
        }
    }
    // The unused bits of the last digit must be zero.
    (filled == KEY_LENGTH && bits == 0).then_some(bytes)
}

impl PartialEq for PresharedKey {
    /// Compares the keys of two configurations. The comparison does not take constant time, so it
    /// must not be used to check a peer's guess of the key.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for PresharedKey {}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(…)")
    }
}
