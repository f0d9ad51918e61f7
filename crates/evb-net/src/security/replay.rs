//! [`ReplayWindow`]: the recent numbers that have come already (RFC 6479, for RFC 4303 §3.4.3), and
//! [`extend`]: the full number that 32 bits stand for (RFC 4303 appendix A2).

#[cfg(test)]
mod tests;

/// Greatest distance of an accepted number from the highest that came: at 10 Gbit/s, 7 ms of full
/// packets.
pub const REPLAY_WINDOW: u64 = 8192;

const WORDS: usize = REPLAY_WINDOW as usize / 64 + 1;

/// Remembers numbers that came; each is new once.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    highest: u64,
    /// Bits of numbers, by their remainder; the word behind the highest number's always belongs to
    /// future numbers.
    words: Box<[u64; WORDS]>,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        let mut words = Box::new([0; WORDS]);
        // Numbers begin at 1.
        words[0] = 1;
        Self { highest: 0, words }
    }
}

impl ReplayWindow {
    /// The highest number that came.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns true if a number has not come yet, and is not too old for the window.
    pub fn is_new(&self, number: u64) -> bool {
        if number > self.highest {
            return true;
        }
        self.highest - number < REPLAY_WINDOW && self.words[word(number)] & bit(number) == 0
    }

    /// A number came that [`is_new`](Self::is_new), and is authentic.
    pub fn insert(&mut self, number: u64) {
        if number > self.highest {
            let (last, next) = (self.highest / 64, number / 64);
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

/// The number next to `near` whose low half is `low`.
pub const fn extend(low: u32, near: u64) -> u64 {
    let step = low.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(step as i64)
}
