//! [`DatagramEnd`]: the source's end of a lane over datagrams.

mod cut;

#[cfg(test)]
mod tests;

use core::{convert::Infallible, ops::Range, time::Duration};
use std::{collections::VecDeque, io::IoSlice};

use bytes::BytesMut;

use super::SourceCore;
use crate::{
    index::LaneIndex,
    lane::{DatagramFault, Envelope, MAX_RESENDS, Request, Tags, Unbelieved},
    time::Instant,
    units::Bytes,
    wire::{datagram::DATAGRAM_HEADER, tag::TAG_LENGTH},
};

use cut::Cut;

/// Maximum number of datagrams in one train, which the kernel cuts (`UDP_MAX_SEGMENTS`; newer
/// kernels allow twice as many).
pub const MAX_DATAGRAMS: usize = 64;

/// Maximum number of bytes in one train: the maximum size of an IP packet, less its headers and
/// some room for options, because the kernel builds a train as one IP packet.
pub const MAX_TRAIN: usize = 65_487;

/// Maximum number of pieces of fragments in one train, which also has a header for each datagram;
/// the total is below the kernel's limit `UIO_MAXIOV`.
const PIECES: usize = 800;

/// Time after which announcing on a lane whose socket was full is tried again.
const LATER: Duration = Duration::from_millis(1);

/// Source's end of a lane over datagrams: the queue of announcements and granted data, and their
/// division into datagrams.
#[derive(Debug)]
pub struct DatagramEnd {
    /// Maximum length of a datagram in bytes, including its header and tag.
    datagram: usize,
    /// Maximum number of datagrams in one train.
    most: usize,
    /// Trains that wait for their departure.
    queue: VecDeque<Departing>,
    /// A datagram of records that is not sent yet; empty if there is none.
    records: BytesMut,
    tags: Tags,
    envelopes: Vec<Envelope>,
    /// Departure time of the last train.
    last_at: Option<Instant>,
}

/// Datagrams to be sent together.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The bytes of all datagrams, one behind the other, in the memory into which readout wrote the
    /// data.
    pub slices: &'a [IoSlice<'a>],
    /// Length of each datagram in bytes; the last may be shorter.
    pub datagram: usize,
    /// Departure time; `None` if there is none.
    pub at: Option<Instant>,
}

impl Train<'_> {
    /// Returns a copy of each datagram.
    pub fn datagrams(&self) -> Vec<Vec<u8>> {
        let slices: Vec<&[u8]> = self.slices.iter().map(|slice| &**slice).collect();
        slices.concat().chunks(self.datagram).map(<[u8]>::to_vec).collect()
    }
}

#[derive(Debug)]
struct Departing {
    range: Range<u64>,
    request: Request,
    at: Instant,
}

impl DatagramEnd {
    /// Creates the end of a lane with datagrams of at most `datagram` bytes, including header and
    /// tag.
    pub fn new(datagram: usize, tags: Tags) -> Self {
        Self {
            datagram,
            most: (MAX_TRAIN / datagram).clamp(1, MAX_DATAGRAMS),
            queue: VecDeque::new(),
            records: BytesMut::new(),
            tags,
            envelopes: Vec::new(),
            last_at: None,
        }
    }

    /// Limits trains to the given number of bytes, but at least one datagram.
    #[must_use]
    pub fn in_trains_of(self, bytes: Option<Bytes>) -> Self {
        let most = bytes.map_or(self.most, |bytes| bytes.as_usize() / self.datagram);
        Self { most: most.clamp(1, self.most), ..self }
    }

    /// Returns the maximum length of a datagram in bytes, without its tag.
    pub fn datagram(&self) -> usize {
        self.datagram - if self.tags.is_some() { TAG_LENGTH } else { 0 }
    }

    /// Passes a datagram of the builder to `core`. Returns the reason if the datagram is ignored.
    ///
    /// # Errors
    /// Returns a [`DatagramFault`], after which the lane's connection must be closed.
    pub fn receive(
        &mut self,
        core: &mut SourceCore,
        lane: LaneIndex,
        datagram: &[u8],
        now: Instant,
    ) -> Result<Option<Unbelieved>, DatagramFault> {
        let (header, body) = match Envelope::open(datagram, &mut self.tags) {
            Ok(opened) => opened,
            Err(fault) => return Ok(Some(fault)),
        };
        match core.handle_datagram(lane, &header, body, now) {
            Ok(()) => Ok(None),
            Err(DatagramFault::Stale) => Ok(Some(Unbelieved::Stale)),
            Err(fault) => Err(fault),
        }
    }

    /// Queues a datagram with the announcements and acknowledgements that are due. Returns the
    /// number of its bytes without header and tag.
    pub fn announce(&mut self, core: &mut SourceCore, lane: LaneIndex, now: Instant) -> usize {
        if !self.records.is_empty() {
            // Only one datagram of records is queued at a time. It contains these announcements, or
            // the next one will.
            core.put_off(lane, now + LATER);
            return 0;
        }
        core.set_answering(lane, self.is_answering());
        core.write_datagram(lane, now, &mut self.records);
        let length = self.records.len().saturating_sub(DATAGRAM_HEADER);
        Envelope::close(&mut self.records, &mut self.tags);
        length
    }

    /// Queues lane bytes that depart at `at`. Retransmissions go before first transmissions, and
    /// replace queued retransmissions of the same bytes (docs/reference/protocol.md UDP-12).
    pub fn send(&mut self, range: Range<u64>, request: Request, at: Instant) {
        if request == 0 {
            self.queue.push_back(Departing { range, request, at });
            return;
        }
        self.queue.retain_mut(|waiting| {
            let overlaps = waiting.range.start < range.end && range.start < waiting.range.end;
            if waiting.request != 0 && overlaps {
                // An older retransmission that overlaps keeps only its bytes before the new one.
                // The builder misses the older retransmission's remaining bytes and requests them
                // again.
                waiting.range.end = waiting.range.end.min(range.start);
            }
            !waiting.range.is_empty()
        });
        let first = self.queue.partition_point(|waiting| waiting.request != 0);
        if first < MAX_RESENDS {
            self.queue.insert(first, Departing { range, request, at });
        }
    }

    /// Sends the next datagrams of lane `lane` of `core` by `transmit`, which returns the number of
    /// sent bytes. Returns the lane offset up to which bytes were now sent for the first time, 0 if
    /// other bytes or none were sent; `None` if nothing waits.
    ///
    /// # Errors
    /// Returns the error of `transmit`, after which all of its datagrams wait again.
    pub fn send_train<E>(
        &mut self,
        core: &mut SourceCore,
        lane: LaneIndex,
        transmit: impl FnOnce(Train<'_>) -> Result<usize, E>,
    ) -> Result<Option<u64>, E> {
        // Records acknowledge the builder's requests, so they are sent after the data that answers
        // these requests.
        if !self.records.is_empty() && !self.is_answering() {
            // The records must not depart before the trains sent earlier, which may answer the
            // request that the records acknowledge.
            let slices = &[IoSlice::new(&self.records)];
            transmit(Train { slices, datagram: self.records.len(), at: self.last_at })?;
            self.records.clear();
            return Ok(Some(0));
        }
        let (segment, datagram) = (self.segment(), self.datagram);
        let others_answer = self.queue.get(1).is_some_and(|next| next.request != 0);
        let Some(Departing { range, request, at }) = self.queue.front_mut() else { return Ok(None) };
        let end = range.end.min(range.start + (self.most * segment) as u64);
        let is_part = *request != 0 && end < range.end;
        core.set_answering(lane, is_part || others_answer);
        let Some(sealing) = core.sealing(lane, *request) else {
            self.queue.clear();
            return Ok(Some(0));
        };
        let mut cut = Cut::into_segments(segment);
        let covered = core.pieces(lane, range.start..end, PIECES, |piece| cut.push(piece));
        let mut reached = 0;
        if covered == 0 {
            // These bytes were committed after the builder requested them again, so the builder has
            // them.
            range.start = end.min(range.start + segment as u64);
        } else {
            let (mut length, mut count) = cut.finish(covered < end - range.start);
            cut.seal(sealing, range.start, &mut self.envelopes, &mut self.tags);
            let slices = &cut.slices(&self.envelopes);
            let sent = transmit(Train { slices, datagram, at: Some(*at) })?;
            // If the kernel does not segment the train, only some of its datagrams may have been
            // sent.
            if sent < length + count * (datagram - segment) {
                count = sent / datagram;
                length = count * segment;
            }
            range.start += length as u64;
            reached = if *request == 0 { range.start } else { 0 };
            self.last_at = Some(*at);
            core.handle_sent(lane, count as u32);
        }
        self.queue.pop_front_if(|departing| departing.range.is_empty());
        Ok(Some(reached))
    }

    /// Sends everything that waits, and returns a copy of each datagram.
    pub fn send_all(&mut self, core: &mut SourceCore, lane: LaneIndex) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut copy = |train: Train<'_>| {
            let datagrams = train.datagrams();
            let sent = datagrams.iter().map(Vec::len).sum();
            all.extend(datagrams);
            Ok::<_, Infallible>(sent)
        };
        while let Ok(Some(_)) = self.send_train(core, lane, &mut copy) {}
        all
    }

    /// Returns true if retransmissions that the builder requested wait to be sent.
    fn is_answering(&self) -> bool {
        self.queue.front().is_some_and(|front| front.request != 0)
    }

    /// Returns the number of lane bytes in a full datagram.
    fn segment(&self) -> usize {
        self.datagram() - DATAGRAM_HEADER
    }
}
