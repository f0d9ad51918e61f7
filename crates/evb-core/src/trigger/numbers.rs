//! [`TriggerNumbers`]: judges the numbers of announced triggers (docs/reference/triggers.md).

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::announcement::{Announcement, MAX_COUNT};

/// Number of the last announcements that are remembered, to recognize late ones and copies.
const REMEMBERED: usize = 64;

/// Number of announcements in a row, with rising numbers that came before, that show that the
/// trigger program was started again.
const RESTART: u32 = 3;

/// Counts of trigger announcements that did not simply announce the next trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnnouncementCounts {
    /// Triggers whose own announcement did not arrive; they were taken with the next announcement.
    pub unannounced: u64,
    /// Ignored announcements of triggers that were taken before.
    pub repeated: u64,
    /// Number of times that the trigger program began to count again.
    pub restarts: u64,
    /// Ignored announcements whose number was more than [`MAX_COUNT`] ahead.
    pub too_far_ahead: u64,
    /// Triggers that came before the run began, and were not taken.
    pub before_start: u64,
}

/// The meaning of an announcement after the triggers that were taken so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// That many triggers are new, the last of which is the announced one.
    New(u64),
    /// The trigger was taken before.
    Taken,
    /// The trigger was taken before, and the trigger program began to count again.
    Restarted,
    /// The number is too far ahead to be right.
    TooFarAhead,
}

/// The account of a run's announced triggers: the number of the last one that was taken, and the
/// counts of unusual announcements.
#[derive(Clone, Debug)]
pub struct TriggerNumbers {
    last: u64,
    /// The announcements of the last triggers that arrived, each at its number modulo their count.
    recent: [Announcement; REMEMBERED],
    /// Number of the last repeated announcement, and of such announcements in a row with rising
    /// numbers.
    again: (u64, u32),
    counts: AnnouncementCounts,
}

impl TriggerNumbers {
    /// Returns the state after the trigger with number `last`.
    pub fn after(last: u64) -> Self {
        let none = Announcement { number: 0, sent_ns: 0 };
        Self { last, recent: [none; REMEMBERED], again: (0, 0), counts: AnnouncementCounts::default() }
    }

    /// Returns the number of the last trigger that was taken; 0 if none was.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the counts of unusual announcements so far.
    pub fn counts(&self) -> AnnouncementCounts {
        self.counts
    }

    /// Judges an announcement, and counts it unless its triggers are new. The log names those that
    /// must be a mistake. For new triggers, call [`take`](Self::take) or [`refuse`](Self::refuse).
    pub fn judge(&mut self, announcement: Announcement) -> Judged {
        let (number, last) = (announcement.number, self.last);
        let new = number.saturating_sub(last);
        if new > MAX_COUNT {
            self.counts.too_far_ahead += 1;
            if self.counts.too_far_ahead.is_power_of_two() {
                tracing::warn!(
                    number,
                    last,
                    "ignored an announcement of trigger {number}, and made no event of it, because it is more than {MAX_COUNT} ahead of trigger {last}, the last one: let the trigger program count in steps of 1, and check whether another program sends triggers to the same port"
                );
            }
            return Judged::TooFarAhead;
        }
        if new > 0 {
            return Judged::New(new);
        }
        self.judge_taken(announcement)
    }

    /// Notes that the triggers up to the announced one are taken.
    pub fn take(&mut self, announcement: Announcement) {
        self.counts.unannounced += announcement.number.saturating_sub(self.last + 1);
        self.last = self.last.max(announcement.number);
        self.again = (0, 0);
        *self.recent_mut(announcement.number) = announcement;
    }

    /// Counts triggers that came before the run began.
    pub fn refuse(&mut self, count: u64) {
        self.counts.before_start += count;
    }

    /// Judges an announcement whose number was passed already: it is late, or repeated, or shows
    /// that the trigger program has started again.
    fn judge_taken(&mut self, announcement: Announcement) -> Judged {
        let number = announcement.number;
        let is_recent = self.last - number < REMEMBERED as u64;
        let known = self.recent_mut(number);
        if is_recent && known.number != number {
            // The announcement is late: other announcements have overtaken it.
            *known = announcement;
            self.counts.unannounced = self.counts.unannounced.saturating_sub(1);
            return Judged::Taken;
        }
        // A network that repeats a datagram repeats its time too.
        let is_copy = *known == announcement && announcement.sent_ns != 0;
        self.counts.repeated += 1;
        if is_copy {
            return Judged::Taken;
        }
        // Several new announcements in a row with rising numbers show a restart.
        let (before, row) = self.again;
        let row = if row > 0 && number > before { row.saturating_add(1) } else { 1 };
        self.again = (number, row);
        if row != RESTART {
            return Judged::Taken;
        }
        self.counts.restarts += 1;
        let last = self.last;
        tracing::warn!(
            number,
            last,
            "the trigger program counts again from {number}, and its triggers are ignored up to {last}, so they make no events: let it count on, or start a new run"
        );
        Judged::Restarted
    }

    fn recent_mut(&mut self, number: u64) -> &mut Announcement {
        &mut self.recent[number as usize % REMEMBERED]
    }
}
