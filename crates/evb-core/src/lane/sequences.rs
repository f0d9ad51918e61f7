//! [`Sequences`]: counts the datagrams of an association that never arrived.

#[cfg(test)]
mod tests;

use crate::wire::datagram::is_after;

/// Distance behind the newest sequence number within which a late datagram can be distinguished
/// from a duplicate: 50 ms of full packets at 1 Gbit/s.
const REMEMBERED: u32 = 4096;

/// The latest sequence numbers of an association, and which of their datagrams arrived.
#[derive(Debug)]
pub(crate) struct Sequences {
    newest: u32,
    /// One bit for each of the latest sequence numbers, at the number modulo `REMEMBERED`: 1 if the
    /// datagram arrived.
    came: [u64; REMEMBERED as usize / 64],
    absent: u64,
}

impl Default for Sequences {
    fn default() -> Self {
        Self { newest: 0, came: [0; REMEMBERED as usize / 64], absent: 0 }
    }
}

impl Sequences {
    /// Notes that the datagram with that sequence number arrived.
    pub(crate) fn note(&mut self, sequence: u32) {
        let (word, bit) = place(sequence);
        if is_after(sequence, self.newest) {
            let step = sequence.wrapping_sub(self.newest);
            // The numbers in between count as absent until they arrive.
            self.absent += u64::from(step) - 1;
            for skipped in 1..step.min(REMEMBERED + 1) {
                let (word, bit) = place(sequence.wrapping_sub(skipped));
                self.came[word] &= !bit;
            }
            self.came[word] |= bit;
            self.newest = sequence;
        } else if self.newest.wrapping_sub(sequence) < REMEMBERED && self.came[word] & bit == 0 {
            // The datagram was counted as absent before, because it arrived late.
            self.came[word] |= bit;
            self.absent = self.absent.saturating_sub(1);
        }
    }

    /// Returns the newest sequence number that arrived; 0 if no datagram has arrived.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Returns the number of datagrams that have not arrived, although later ones have.
    pub(crate) fn absent(&self) -> u64 {
        self.absent
    }
}

fn place(sequence: u32) -> (usize, u64) {
    let place = sequence % REMEMBERED;
    ((place / 64) as usize, 1 << (place % 64))
}
