//! The secret token that a request must carry.

use std::{
    fmt,
    io::Read as _,
    path::{Path, PathBuf},
};

use evb_net::security::{SecretError, open_secret};
use subtle::ConstantTimeEq as _;

/// Permitted lengths of tokens: the shortest that is safe, and the longest that is accepted.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=512;

/// A secret, which is never shown.
pub(crate) struct Token(String);

/// The reason why a token file is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The file cannot be read, or others may read or change it.
    #[error("the token file cannot be used: {}{}", .0, way_out(.0))]
    File(#[from] SecretError),
    /// The file holds no token.
    #[error(
        "the token file {path} must hold one line of 16 to 512 printable characters without blanks, and holds something else: `openssl rand -hex 24 > {path}` makes one"
    )]
    Malformed {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Returns the advice that the error itself does not give.
fn way_out(error: &SecretError) -> &'static str {
    match error {
        SecretError::Read { .. } | SecretError::NotAFile(_) => {
            "; give this user a copy of that file, or make a new one for evbd and all its clients with `openssl rand -hex 24 > FILE && chmod 600 FILE`"
        }
        SecretError::Mode { .. } | SecretError::Owner { .. } => "",
    }
}

impl Token {
    /// Reads the secret from a file that passes [`open_secret`].
    pub(crate) fn read(path: &Path) -> Result<Self, TokenError> {
        let file = open_secret(path)?;
        let mut text = String::new();
        let unreadable = |reason| SecretError::Read { path: path.to_owned(), reason };
        file.take(1024).read_to_string(&mut text).map_err(unreadable)?;
        let token = text.trim_end();
        if !LENGTH.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Malformed { path: path.to_owned() });
        }
        Ok(Self(token.to_owned()))
    }

    /// Returns true if the tokens are equal, in a time that depends only on the length of `given`.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Returns the value of the `Authorization` header of a request with this token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
