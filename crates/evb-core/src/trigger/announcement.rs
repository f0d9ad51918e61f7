//! Trigger messages over the network: numbered datagrams, or counts as text
//! (docs/reference/triggers.md).

#[cfg(test)]
mod tests;

/// The length of an announcement.
pub const LENGTH: usize = 20;

const MAGIC: [u8; 4] = *b"evbt";

/// The longest line that is read as a count, in bytes.
pub const MAX_LINE: usize = 20;

/// The most triggers that one message may request, or skip.
pub const MAX_COUNT: u64 = 1 << 20;

/// The announcement of a trigger that has happened. The numbers of a run are dense and begin with
/// 1: they are the event ids, so that a listener that missed some knows which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The trigger number.
    pub number: u64,
    /// The time of sending by the sender's clock, ns.
    pub sent_ns: u64,
}

/// The request in a trigger message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// That many triggers, now.
    Count(u64),
    /// All triggers up to this one.
    Announced(Announcement),
}

/// The reason why bytes are not a trigger message: the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerMessageError {
    /// The bytes are neither a number nor an announcement.
    #[error("the message is neither an announcement (`evbt`, number, time) nor a number as text")]
    Form,
    /// The message requests too many triggers at once.
    #[error("the message asks for more than {MAX_COUNT} triggers")]
    Count,
    /// Trigger numbers begin with 1.
    #[error("trigger numbers begin with 1")]
    Zero,
}

impl Announcement {
    /// Returns the datagram: `evbt`, number, time; both u64, little-endian.
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

/// Reads a line without its end: a decimal count; an empty line is one trigger.
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

/// Reads a datagram: an [`Announcement`], or a count as text.
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
