//! Trigger messages over the network: announcements of numbered triggers, or counts as text
//! (docs/reference/triggers.md).

#[cfg(test)]
mod tests;

/// Length of an announcement in bytes.
pub const LENGTH: usize = 20;

const MAGIC: [u8; 4] = *b"evbt";

/// Length of the longest line that is read as a count, in bytes.
pub const MAX_LINE: usize = 20;

/// Most triggers that one message may request, by a count or by its number.
pub const MAX_COUNT: u64 = 1 << 20;

/// Announcement of a trigger that has happened. Trigger numbers count from 1 without gaps and are
/// the event ids; so a receiver that missed announcements knows which ones.
///
/// ```
/// use evb_core::trigger::announcement::{Announcement, Asked, parse_datagram};
///
/// let announcement = Announcement { number: 42, sent_ns: 1_000_000 };
/// let datagram = announcement.encode();
/// assert_eq!(&datagram[..4], b"evbt");
/// assert_eq!(parse_datagram(&datagram), Ok(Asked::Announced(announcement)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Number of the trigger.
    pub number: u64,
    /// Time at which the announcement was sent, on the sender's clock, ns.
    pub sent_ns: u64,
}

/// The triggers that a message asks the supervisor to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A number of triggers that happen now.
    Count(u64),
    /// All triggers up to the announced one.
    Announced(Announcement),
}

/// Reason why bytes are not a trigger message. The sender made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerMessageError {
    /// The bytes are neither a number nor an announcement.
    #[error(
        "the message is neither an announcement (`evbt`, number, time) nor a number as text: look which program sends such messages to the trigger port"
    )]
    Form,
    /// The message requests more than [`MAX_COUNT`] triggers at once.
    #[error(
        "the message asks for {0} triggers, more than the {MAX_COUNT} that are taken at once: let the trigger program ask for fewer"
    )]
    Count(u64),
    /// The announcement has trigger number 0, but numbers begin with 1.
    #[error("the message has trigger number 0: let the trigger program count from 1")]
    Zero,
}

impl Announcement {
    /// Returns the datagram: the text `evbt`, then number and time, both as u64, little-endian.
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

/// Reads a line without its end: a decimal count of triggers. An empty line counts as one trigger.
///
/// # Errors
/// Returns [`TriggerMessageError`] if the line is not a count, or the count is too large.
pub fn parse_line(line: &[u8]) -> Result<u64, TriggerMessageError> {
    let text = str::from_utf8(line).map_err(|_| TriggerMessageError::Form)?.trim();
    if text.is_empty() {
        return Ok(1);
    }
    if text.len() > MAX_LINE || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TriggerMessageError::Form);
    }
    // A number of 20 digits may be too large for the type, and then it is too large for a count.
    let count = text.parse().unwrap_or(u64::MAX);
    if count <= MAX_COUNT { Ok(count) } else { Err(TriggerMessageError::Count(count)) }
}

/// Reads a datagram: either an [`Announcement`], or a count as text.
///
/// # Errors
/// Returns [`TriggerMessageError`] if the datagram is neither, or its number is out of range.
pub fn parse_datagram(bytes: &[u8]) -> Result<Asked, TriggerMessageError> {
    match Announcement::decode(bytes) {
        Some(Announcement { number: 0, .. }) => Err(TriggerMessageError::Zero),
        Some(announcement) => Ok(Asked::Announced(announcement)),
        None => parse_line(bytes).map(Asked::Count),
    }
}
