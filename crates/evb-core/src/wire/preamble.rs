//! The first 8 bytes that either side sends on any connection: magic, protocol version, kind of
//! connection, and the protection of the following bytes.

/// Length of the preamble.
pub const PREAMBLE_LENGTH: usize = 8;

/// `evb`, and a byte that no text protocol sends (docs/reference/protocol.md CONN-1).
pub const MAGIC: [u8; 4] = [b'e', b'v', b'b', 0xEB];

/// The version of all of `docs/reference/protocol.md`; peers of different versions refuse each
/// other (docs/reference/protocol.md CONN-2).
pub const PROTOCOL_VERSION: u16 = 1;

/// The purpose of a connection (docs/reference/protocol.md CONN-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// A source or builder connects to the supervisor.
    Control,
    /// A source connects to a builder.
    Lane,
}

/// The protection of the bytes after the preamble (docs/reference/protocol.md SEC-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// No protection.
    Clear,
    /// `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` and its derived keys.
    Noise,
}

/// The reason why a preamble is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// The bytes are of another protocol.
    #[error("not an evb peer: it began with {0:02x?}")]
    Foreign([u8; PREAMBLE_LENGTH]),
    /// The peer is an evb of another protocol version.
    #[error(
        "the peer speaks protocol version {theirs}, this is version {PROTOCOL_VERSION}: install the same release on both"
    )]
    Version {
        /// The peer's version.
        theirs: u16,
    },
    /// The peer wants another kind of port, such as a source at the supervisor's.
    #[error(
        "wrong port: the peer wants kind {wanted}, which this port does not serve; check the addresses in the configuration"
    )]
    Kind {
        /// The kind it asked for.
        wanted: u8,
    },
    /// The peer uses a protection that this version does not know.
    #[error(
        "the peer protects its connection by method {0}, which this version does not know: install the same release on both"
    )]
    Protection(u8),
}

/// Returns the preamble of an unprotected connection of this kind.
pub fn preamble(kind: ConnectionKind) -> [u8; PREAMBLE_LENGTH] {
    protected_preamble(kind, Spoken::Clear)
}

/// Returns the preamble of a connection of this kind with that protection.
pub fn protected_preamble(kind: ConnectionKind, spoken: Spoken) -> [u8; PREAMBLE_LENGTH] {
    let [v0, v1] = PROTOCOL_VERSION.to_le_bytes();
    let [m0, m1, m2, m3] = MAGIC;
    [m0, m1, m2, m3, v0, v1, kind.number(), spoken.number()]
}

/// Checks a peer's preamble against the kind that this side serves, and returns the peer's
/// protection.
///
/// # Errors
/// [`PreambleError`]: another protocol, version, kind of connection, or protection.
pub fn check_preamble(bytes: [u8; PREAMBLE_LENGTH], kind: ConnectionKind) -> Result<Spoken, PreambleError> {
    let [m0, m1, m2, m3, v0, v1, wanted, spoken] = bytes;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(PreambleError::Foreign(bytes));
    }
    let theirs = u16::from_le_bytes([v0, v1]);
    if theirs != PROTOCOL_VERSION {
        return Err(PreambleError::Version { theirs });
    }
    if wanted != kind.number() {
        return Err(PreambleError::Kind { wanted });
    }
    match spoken {
        0 => Ok(Spoken::Clear),
        1 => Ok(Spoken::Noise),
        _ => Err(PreambleError::Protection(spoken)),
    }
}

impl Spoken {
    const fn number(self) -> u8 {
        match self {
            Self::Clear => 0,
            Self::Noise => 1,
        }
    }
}

impl ConnectionKind {
    const fn number(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Lane => 2,
        }
    }
}
