//! [`IpReassembly`]: joins the fragments of IP datagrams.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, net::IpAddr};

/// Number of datagrams that may begin before a datagram without all its fragments is given up, as
/// in Linux (`net.ipv4.ipfrag_max_dist`): before a host uses its id again. Each has up to 64 KiB.
const MAX_DISTANCE: u64 = 64;

/// Largest payload of an IP datagram.
const LARGEST: usize = u16::MAX as usize;

/// Values that all fragments of a datagram have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) id: u32,
    /// Number of the protocol of the payload.
    pub(super) number: u8,
}

/// A fragment of an IP datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct IpFragment<'a> {
    pub(super) offset: usize,
    pub(super) has_more: bool,
    pub(super) bytes: &'a [u8],
}

/// The datagrams of which only some fragments were captured so far.
#[derive(Debug, Default)]
pub(super) struct IpReassembly {
    /// The datagrams that began last, with their numbers; `None`: repeats of its fragments are of
    /// no use.
    recent: HashMap<Origin, (u64, Option<OpenDatagram>)>,
    begun: u64,
    whole: Vec<u8>,
    /// Number of datagrams that were given up.
    pub(super) unfinished: u64,
}

impl IpReassembly {
    /// Takes a fragment. Returns the payload of the datagram if that is whole now.
    pub(super) fn take(&mut self, origin: Origin, fragment: IpFragment<'_>) -> Option<&[u8]> {
        if !self.recent.contains_key(&origin) {
            self.begun += 1;
            let oldest = self.begun.saturating_sub(MAX_DISTANCE);
            self.give_up(oldest);
            self.recent.insert(origin, (self.begun, Some(OpenDatagram::default())));
        }
        let (_, open) = self.recent.get_mut(&origin)?;
        let datagram = open.as_mut()?;
        if datagram.add(fragment).is_none() {
            *open = None;
            self.unfinished += 1;
            return None;
        }
        if !datagram.is_whole() {
            return None;
        }
        self.whole = open.take()?.bytes;
        Some(&self.whole)
    }

    /// Gives up the datagrams up to this number.
    fn give_up(&mut self, oldest: u64) {
        let unfinished = &mut self.unfinished;
        self.recent.retain(|_, (number, open)| {
            let stays = *number > oldest;
            *unfinished += u64::from(!stays && open.is_some());
            stays
        });
    }

    /// Gives up all datagrams at the end of the capture.
    pub(super) fn finish(&mut self) {
        self.give_up(u64::MAX);
    }
}

/// A datagram of which only some fragments were captured so far.
#[derive(Debug, Default)]
struct OpenDatagram {
    bytes: Vec<u8>,
    /// Begins and ends of the parts that are there.
    parts: Vec<(usize, usize)>,
    end: Option<usize>,
}

impl OpenDatagram {
    /// Adds a fragment; `None` if it contradicts others, or cannot be.
    fn add(&mut self, fragment: IpFragment<'_>) -> Option<()> {
        let IpFragment { offset, has_more, bytes } = fragment;
        let end = offset + bytes.len();
        let contradicts = match self.end {
            Some(known) => end > known || !has_more && end != known,
            None => !has_more && end < self.bytes.len(),
        };
        // All fragments but the last one have a multiple of eight bytes (RFC 791).
        if contradicts || end > LARGEST || bytes.is_empty() || has_more && bytes.len() % 8 != 0 {
            return None;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        if !has_more {
            self.end = Some(end);
        }
        // Parts that touch the new one are merged with it.
        let (mut first, mut last) = (offset, end);
        self.parts.retain(|(begin, end)| {
            let is_apart = *end < first || *begin > last;
            if !is_apart {
                (first, last) = (first.min(*begin), last.max(*end));
            }
            is_apart
        });
        self.parts.push((first, last));
        Some(())
    }

    fn is_whole(&self) -> bool {
        self.end.is_some_and(|end| self.parts == [(0, end)])
    }
}
