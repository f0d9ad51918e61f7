//! [`Reassembly`]: puts the packets of fragments together.

mod open_fragment;

use std::{collections::VecDeque, time::Duration};

use evb_core::{
    fragment::{Fragment, Timestamp},
    framing::{
        Extent, FrameField, FrameLayout, LayoutError, LengthCounts, Losses, MAX_OPEN_FRAGMENTS, OnLoss,
        PacketLayout,
    },
    id::EventId,
    time::Instant,
    units::Bytes,
};

use self::open_fragment::{Added, BoardPacket, OpenFragment};

/// Time without a packet after which a fragment is given up.
const PATIENCE: Duration = Duration::from_millis(100);

/// Number of ended fragments, with counters in a row, whose further packets are known to be late.
const REMEMBERED: usize = 4096;

/// The packets of the fragments of a board. Memory: at most [`MAX_OPEN_FRAGMENTS`] fragments.
#[derive(Debug)]
pub(super) struct Reassembly {
    layout: FrameLayout,
    packets: PacketLayout,
    on_loss: OnLoss,
    /// Largest fragment.
    limit: u64,
    /// Fragments that wait for packets, or for an earlier fragment; ascending by their counters.
    open: VecDeque<OpenFragment>,
    /// Counters of the fragments that ended last, with the times of their ends; each at its counter
    /// modulo [`REMEMBERED`].
    ended: Box<[Option<(u64, Instant)>]>,
    /// Largest payload of a packet: the size of those that did not come.
    usual: usize,
    losses: Losses,
}

impl Reassembly {
    /// Creates a reassembly without packets.
    ///
    /// # Errors
    /// The part of the layout that cannot be.
    pub(super) fn new(
        layout: FrameLayout,
        max_fragment: Bytes,
        on_loss: OnLoss,
    ) -> Result<Self, LayoutError> {
        layout.check()?;
        let (Some(packets), Some(_)) = (layout.packets.clone(), &layout.counter) else {
            return Err(LayoutError::Uncounted);
        };
        Ok(Self {
            layout,
            packets,
            on_loss,
            limit: max_fragment.count().min(u32::MAX.into()),
            open: VecDeque::new(),
            ended: vec![None; REMEMBERED].into(),
            usual: 0,
            losses: Losses::default(),
        })
    }

    /// Returns what could not be used so far.
    pub(super) fn losses(&self) -> Losses {
        self.losses
    }

    /// Returns the number of bytes that are reserved for packets.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.open.iter().map(OpenFragment::reserved).sum()
    }

    /// Takes a packet, and appends the fragments that are ready.
    pub(super) fn take(&mut self, datagram: &[u8], now: Instant, out: &mut Vec<Fragment>) {
        let Some(packet) = self.read(datagram) else {
            self.losses.garbage_bytes += datagram.len() as u64;
            return;
        };
        let index = match self.open.iter().rposition(|open| open.counter() == packet.counter) {
            Some(index) => index,
            None if self.has_ended(packet.counter, now) => {
                self.losses.unused_packets += 1;
                return;
            }
            None => {
                if self.open.len() == MAX_OPEN_FRAGMENTS {
                    self.end_first(now, out);
                }
                self.insert(OpenFragment::new(&packet, self.limit))
            }
        };
        match self.open[index].add(&packet, self.limit, now) {
            Added::New => {}
            Added::Double => self.losses.unused_packets += 1,
            Added::Contradiction => {
                self.losses.bad_lengths += 1;
                self.losses.garbage_bytes += datagram.len() as u64;
                if self.open[index].is_empty() {
                    self.open.remove(index);
                }
            }
        }
        self.end_complete(now, out);
    }

    /// Gives up the fragments whose packets have not come in time.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Fragment>) {
        while self.next_timeout().is_some_and(|due| due <= now) {
            self.end_first(now, out);
            self.end_complete(now, out);
        }
    }

    /// Returns the time at which the first fragment is given up.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        Some(self.open.front()?.latest() + PATIENCE)
    }

    /// Gives up all fragments.
    pub(super) fn finish(&mut self, out: &mut Vec<Fragment>) {
        while !self.open.is_empty() {
            self.end_first(Instant::ZERO, out);
        }
        self.ended.fill(None);
    }

    /// Forgets all fragments, and returns their number.
    pub(super) fn begin(&mut self) -> u64 {
        self.ended.fill(None);
        let count = self.open.len() as u64;
        self.open.clear();
        count
    }

    /// Reads the header of a packet; `None`, and a count, if it is none.
    fn read<'d>(&mut self, datagram: &'d [u8]) -> Option<BoardPacket<'d>> {
        let layout = &self.layout;
        let (header, trailer) = (layout.header as usize, layout.trailer as usize);
        if layout.magic.as_ref().is_some_and(|magic| !magic.may_be_at(datagram)) {
            self.losses.bad_magics += 1;
            return None;
        }
        if datagram.len() < header + trailer {
            self.losses.cut_short += 1;
            return None;
        }
        let (place, end) = self.packets.place(datagram).or_else(|| {
            self.losses.bad_lengths += 1;
            None
        })?;
        let whole = match layout.extent {
            Extent::Datagram | Extent::Delimited(_) => datagram.len(),
            Extent::Fixed(_) | Extent::Stated { .. } => {
                let stated = layout.length_of(datagram).and_then(|length| usize::try_from(length).ok());
                let Some(length) = stated.filter(|length| *length <= datagram.len()) else {
                    self.losses.cut_short += 1;
                    return None;
                };
                length
            }
        };
        // Other bytes may be between the header and a payload at the end of the datagram.
        let is_tail = matches!(layout.extent, Extent::Stated { counted: LengthCounts::Tail, .. });
        let other = if is_tail { datagram.len() - whole } else { 0 };
        let payload = &datagram[header + other..whole + other - trailer];
        if !layout.end.is_empty() && !datagram[..whole + other].ends_with(&layout.end) {
            self.losses.cut_short += 1;
            return None;
        }
        let counter = layout.counter.as_ref()?.read(datagram)?;
        let ticks = layout.clock.as_ref().map_or(Some(0), |clock| clock.read(datagram))?;
        let is_placed = matches!(self.packets, PacketLayout::Placed { .. });
        Some(BoardPacket { counter, timestamp: Timestamp::new(ticks), place, end, is_placed, payload })
    }

    /// Returns true if a fragment with that counter has ended a short time ago. A board may use its
    /// counters again, for example after a reset.
    fn has_ended(&self, counter: u64, now: Instant) -> bool {
        let ended = self.ended[counter as usize % REMEMBERED];
        ended.is_some_and(|(known, at)| known == counter && now.since(at) < PATIENCE)
    }

    /// Inserts a fragment in the order of counters, and returns its index. A counter that is far
    /// from the others, because the board was reset, comes last.
    fn insert(&mut self, fragment: OpenFragment) -> usize {
        let width = self.layout.counter.as_ref().map_or(64, FrameField::width);
        let most = u64::MAX >> (64 - u32::from(width));
        let is_later = |open: &OpenFragment| {
            let ahead = open.counter().wrapping_sub(fragment.counter()) & most;
            (1..=MAX_OPEN_FRAGMENTS as u64).contains(&ahead)
        };
        let index = self.open.iter().rposition(|open| !is_later(open)).map_or(0, |index| index + 1);
        self.open.insert(index, fragment);
        index
    }

    /// Ends the fragments at the front that are complete.
    fn end_complete(&mut self, now: Instant, out: &mut Vec<Fragment>) {
        while self.open.front().is_some_and(OpenFragment::is_complete) {
            self.end_first(now, out);
        }
    }

    /// Ends the first fragment.
    fn end_first(&mut self, now: Instant, out: &mut Vec<Fragment>) {
        let Some(fragment) = self.open.pop_front() else { return };
        self.ended[fragment.counter() as usize % REMEMBERED] = Some((fragment.counter(), now));
        let (event, timestamp) = (EventId::new(fragment.counter()), fragment.timestamp());
        self.usual = self.usual.max(fragment.largest());
        let lost_packets = u32::try_from(fragment.lost(self.usual)).unwrap_or(u32::MAX);
        self.losses.lost_packets += u64::from(lost_packets);
        let payload = match self.on_loss {
            OnLoss::Drop if lost_packets > 0 => bytes::Bytes::new(),
            OnLoss::Fill if lost_packets > 0 => fragment.filled(self.usual, self.limit),
            _ => fragment.joined(),
        };
        out.push(Fragment { lost_packets, ..Fragment::new(event, timestamp, payload) });
    }
}
