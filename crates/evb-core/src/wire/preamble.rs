//! The first 8 bytes that either side sends on any connection: magic, protocol version, kind of connection.

/// Length of the preamble.
pub const PREAMBLE_LENGTH: usize = 8;

/// `evb` and a byte that no text protocol sends (docs/protocol.md CONN-1).
pub const MAGIC: [u8; 4] = [b'e', b'v', b'b', 0xEB];

/// The version of everything in `docs/protocol.md`; peers of different versions refuse each other (docs/protocol.md CONN-2).
pub const PROTOCOL_VERSION: u16 = 1;

/// What a connection is for (docs/protocol.md CONN-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// A source or builder at the supervisor.
    Control,
    /// A source at a builder.
    Lane,
}

/// Why the first bytes of a connection were not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// Some other protocol knocked.
    #[error("not an evb peer: it began with {0:02x?}")]
    Foreign([u8; PREAMBLE_LENGTH]),
    /// An evb of another protocol version.
    #[error(
        "the peer speaks protocol version {theirs}, this is version {PROTOCOL_VERSION}: install the same release on both"
    )]
    Version {
        /// The peer's version.
        theirs: u16,
    },
    /// A source at the supervisor's port, or the like.
    #[error(
        "wrong port: the peer wants kind {wanted}, which this port does not serve; check the addresses in the configuration"
    )]
    Kind {
        /// The kind it asked for.
        wanted: u16,
    },
}

/// The preamble for a connection of this kind.
pub fn preamble(kind: ConnectionKind) -> [u8; PREAMBLE_LENGTH] {
    let [v0, v1] = PROTOCOL_VERSION.to_le_bytes();
    let [k0, k1] = kind.number().to_le_bytes();
    let [m0, m1, m2, m3] = MAGIC;
    [m0, m1, m2, m3, v0, v1, k0, k1]
}

/// Checks a peer's preamble against the kind that this side serves.
pub fn check_preamble(bytes: [u8; PREAMBLE_LENGTH], kind: ConnectionKind) -> Result<(), PreambleError> {
    let [m0, m1, m2, m3, v0, v1, k0, k1] = bytes;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(PreambleError::Foreign(bytes));
    }
    let theirs = u16::from_le_bytes([v0, v1]);
    if theirs != PROTOCOL_VERSION {
        return Err(PreambleError::Version { theirs });
    }
    let wanted = u16::from_le_bytes([k0, k1]);
    if wanted != kind.number() {
        return Err(PreambleError::Kind { wanted });
    }
    Ok(())
}

impl ConnectionKind {
    const fn number(self) -> u16 {
        match self {
            Self::Control => 1,
            Self::Lane => 2,
        }
    }
}
