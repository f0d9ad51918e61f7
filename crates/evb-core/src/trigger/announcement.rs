//! How triggers are told over the network: a numbered datagram, or a count as text (docs/reference/triggers.md).

#[cfg(test)]
mod tests;

/// The length of an announcement.
pub const LENGTH: usize = 20;

const MAGIC: [u8; 4] = *b"evbt";

/// The longest line that is read as a count.
pub const MAX_LINE: usize = 20;

/// The most triggers that one message may ask for, or skip.
pub const MAX_COUNT: u64 = 1 << 20;

/// Trigger number `number` has happened. The numbers of a run are dense and begin with 1: they are the event ids, so that a
/// listener that missed some knows which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The trigger number.
    pub number: u64,
    /// The sender's clock, ns.
    pub sent_ns: u64,
}

/// What a trigger message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// So many triggers, now.
    Count(u64),
    /// All triggers up to this one.
    Announced(Announcement),
}

/// Why bytes are no trigger message: the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerMessageError {
    /// Neither a number nor an announcement.
    #[error("neither an announcement (`evbt`, number, time) nor a number as text")]
    Form,
    /// Too many at once.
    #[error("more than {MAX_COUNT} triggers in one message")]
    Count,
    /// Trigger numbers begin with 1.
    #[error("trigger numbers begin with 1")]
    Zero,
}

impl Announcement {
    /// As a datagram: `evbt`, number, time; both u64, little-endian.
    pub fn encode(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sent_ns.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, bytes) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<8>()?;
        let sent_ns = bytes.as_array::<8>()?;
        Some(Self { number: u64::from_le_bytes(*number), sent_ns: u64::from_le_bytes(*sent_ns) })
    }
}

/// A line without its end: a decimal count; an empty one is one trigger.
///
/// # Errors
/// [`TriggerMessageError`].
pub fn parse_line(line: &[u8]) -> Result<u64, TriggerMessageError> {
    let text = str::from_utf8(line).map_err(|_| TriggerMessageError::Form)?.trim();
    if text.is_empty() {
        return Ok(1);
    }
    if text.len() > MAX_LINE || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TriggerMessageError::Form);
    }
    text.parse().ok().filter(|count| *count <= MAX_COUNT).ok_or(TriggerMessageError::Count)
}

/// A datagram: an [`Announcement`], or a count as text.
///
/// # Errors
/// [`TriggerMessageError`].
pub fn parse_datagram(bytes: &[u8]) -> Result<Asked, TriggerMessageError> {
    match Announcement::decode(bytes) {
        Some(Announcement { number: 0, .. }) => Err(TriggerMessageError::Zero),
        Some(announcement) => Ok(Asked::Announced(announcement)),
        None => parse_line(bytes).map(Asked::Count),
    }
}
