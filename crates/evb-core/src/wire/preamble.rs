//! The first 8 bytes that each side of a connection sends: magic, protocol version, kind of
//! connection, and protection of the following bytes.

/// Length of the preamble in bytes.
pub const PREAMBLE_LENGTH: usize = 8;

/// First four bytes of the preamble: `evb`, and a byte that no text protocol sends
/// (docs/reference/protocol.md CONN-1).
pub const MAGIC: [u8; 4] = [b'e', b'v', b'b', 0xEB];

/// Version of the protocol in `docs/reference/protocol.md`. Peers with different versions refuse
/// each other (docs/reference/protocol.md CONN-2).
pub const PROTOCOL_VERSION: u16 = 3;

/// Kind of a connection (docs/reference/protocol.md CONN-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// Connection of a source or builder to the supervisor.
    Control,
    /// Connection of a source to a builder.
    Lane,
}

/// Protection of the bytes after the preamble (docs/reference/protocol.md SEC-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// The bytes are not protected.
    Clear,
    /// Encryption or authentication by `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` and keys derived
    /// from it.
    Noise,
}

/// Reason why a preamble is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// The bytes belong to another protocol.
    #[error(
        "the other side is not evb: its first bytes are {0:02x?} in hexadecimal; check which program it is, and the addresses in the configuration"
    )]
    Foreign([u8; PREAMBLE_LENGTH]),
    /// The peer is evb with another protocol version.
    #[error(
        "the peer speaks protocol version {theirs}, but this evb speaks version {PROTOCOL_VERSION}: install the same release on both hosts"
    )]
    Version {
        /// Protocol version of the peer.
        theirs: u16,
    },
    /// The peer wants another kind of connection than this port serves; for example, a source
    /// connects to the supervisor's port to open a lane.
    #[error("wrong port: the other side wants to reach {}, which does not listen on this port; correct that address in the configuration of the other side", reached(*.wanted))]
    Kind {
        /// Number of the kind of connection that the peer wants.
        wanted: u8,
    },
    /// The peer uses a protection that this version of evb does not know.
    #[error(
        "the peer protects its connection by method {0}, which this version does not know: install the same release on both hosts"
    )]
    Protection(u8),
}

/// Returns who listens for connections of the kind with that number.
fn reached(wanted: u8) -> String {
    match wanted {
        1 => "the supervisor".to_owned(),
        2 => "a builder".to_owned(),
        kind => format!("a role that this release of evb does not know ({kind})"),
    }
}

/// Returns the preamble of an unprotected connection of that kind.
pub fn preamble(kind: ConnectionKind) -> [u8; PREAMBLE_LENGTH] {
    protected_preamble(kind, Spoken::Clear)
}

/// Returns the preamble of a connection of that kind, with that protection.
pub fn protected_preamble(kind: ConnectionKind, spoken: Spoken) -> [u8; PREAMBLE_LENGTH] {
    let [v0, v1] = PROTOCOL_VERSION.to_le_bytes();
    let [m0, m1, m2, m3] = MAGIC;
    [m0, m1, m2, m3, v0, v1, kind.number(), spoken.number()]
}

/// Checks a peer's preamble against the kind of connection that this port serves, and returns the
/// peer's protection.
///
/// # Errors
/// Returns [`PreambleError`] if protocol, version, kind of connection, or protection is unexpected.
pub fn check_preamble(bytes: [u8; PREAMBLE_LENGTH], kind: ConnectionKind) -> Result<Spoken, PreambleError> {
    // Magic, version, kind of connection, and protection.
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
