//! [`ReplayWindow`]: the recent numbers that were received already (RFC 6479, for RFC 4303 §3.4.3),
//! and [`extend`]: the full number whose low 32 bits are known (RFC 4303 appendix A2).

#[cfg(test)]
mod tests;

/// Greatest distance of an accepted number below the highest received number: at 10 Gbit/s, 10 ms
/// of full packets.
pub const REPLAY_WINDOW: u64 = 8192;

const WORDS: usize = REPLAY_WINDOW as usize / 64 + 1;

/// Set of the recent numbers that were received, to accept each number only once.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    highest: u64,
    /// One bit per number, indexed by the number modulo the size of the array. The word after the
    /// word of the highest number always belongs to future numbers.
    words: Box<[u64; WORDS]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        let mut words = Box::new([0; WORDS]);
        // Number 0 counts as received, because numbers begin at 1.
        words[0] = 1;
        Self { highest: 0, words }
    }
}

impl ReplayWindow {
    /// Returns the highest number that was received.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns true if a number has not been received yet, and is not too old for the window.
    pub fn is_new(&self, number: u64) -> bool {
        if number > self.highest {
            return true;
        }
        self.highest - number < REPLAY_WINDOW && self.words[word(number)] & bit(number) == 0
    }

    /// Records the number of an authentic datagram; the number must be new
    /// ([`is_new`](Self::is_new)).
    pub fn insert(&mut self, number: u64) {
        if number > self.highest {
            let (last, next) = (self.highest / 64, number / 64);
            // These words hold old numbers, and are reused for the new ones.
            for word in (last + 1)..=next.min(last + WORDS as u64) {
                self.words[(word % WORDS as u64) as usize] = 0;
            }
            self.highest = number;
        }
        self.words[word(number)] |= bit(number);
    }
}

const fn word(number: u64) -> usize {
    (number / 64 % WORDS as u64) as usize
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

/// Returns the number closest to `near` whose low 32 bits are `low`.
pub const fn extend(low: u32, near: u64) -> u64 {
    let step = low.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(step as i64)
}
