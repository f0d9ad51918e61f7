//! Trains on any device: sent whole where the kernel cuts them (`UDP_SEGMENT`), else datagram by
//! datagram.
//!
//! `udp_send_skb` (`net/ipv4/udp.c`) and `udp_v6_send_skb` (`net/ipv6/udp.c`) refuse to cut with
//! `EIO` where a transform such as IPsec or, until Linux 6.11, a device without checksum offload is
//! on the path, and with `EINVAL` on sockets without checksums. Before Linux 6.14 they also return
//! `EINVAL` where a datagram exceeds the MTU, which later kernels report as `EMSGSIZE`.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
};

use evb_core::time::Instant;

use super::{
    DatagramSender, SendError, checked_length,
    gso::{Gso, GsoState},
    no_room,
};
use crate::clock;

impl DatagramSender {
    /// Sends one train of datagrams of `segment` bytes each, the last perhaps shorter, as
    /// [`send`](Self::send) does. If the kernel refuses to cut a train, datagrams are sent one by
    /// one, for a second at first, and for twice as long after each further refusal, up to a
    /// minute.
    ///
    /// Returns the number of bytes sent: the whole train, or possibly only a multiple of `segment`
    /// if datagrams are sent one by one. Datagrams that this host drops for lack of room are
    /// counted and taken as sent, like datagrams that the network loses.
    ///
    /// # Errors
    /// Returns a [`SendError`] if nothing was sent.
    pub fn send_train(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: u16,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let bytes = checked_length(slices, Some(segment))?;
        if bytes <= usize::from(segment) {
            return self.attempt_or_drop(slices, None, at, bytes);
        }
        if !self.gso.is_worth_trying(clock::now) {
            return self.send_one_by_one(slices, segment, at);
        }
        match self.attempt_or_drop(slices, Some(segment), at, bytes) {
            Err(SendError::Io(error)) if is_refusal(&error) => {
                // If the datagrams themselves cause the error, sending them one by one returns the
                // true error.
                let sent = self.send_one_by_one(slices, segment, at)?;
                self.pause_gso(&error);
                Ok(sent)
            }
            Ok(sent) => {
                if !self.gso.state().is_on() {
                    tracing::info!(
                        "the kernel of this host again cuts large writes into datagrams (UDP GSO): the full throughput is back, and nothing needs to be done"
                    );
                    self.gso.worked();
                }
                Ok(sent)
            }
            other => other,
        }
    }

    /// Sends one datagram to `peer` at once; on an unconnected socket, `peer` may be any address.
    pub(crate) fn send_to(&mut self, peer: SocketAddr, datagram: &[u8]) -> Result<usize, SendError> {
        match self.socket.send_to(datagram, peer).map_err(SendError::from_system) {
            Err(SendError::Io(error)) if no_room(&error) => Err(SendError::Full),
            outcome => outcome,
        }
    }

    /// Returns the state of cutting trains into datagrams in the kernel.
    pub fn gso(&self) -> GsoState {
        self.gso.state()
    }

    /// Makes this socket never ask the kernel to cut trains.
    pub(crate) fn without_gso(&mut self) {
        self.gso = Gso::off();
    }

    fn pause_gso(&mut self, error: &io::Error) {
        self.counts.gso_refused += 1;
        self.gso.refused(clock::now());
        if self.counts.gso_refused == 1 {
            tracing::warn!(%error, "the kernel of this host refuses to cut large writes into datagrams (UDP GSO), so each datagram is sent alone, which loses no data, but throughput may fall to a tenth: {error}; run `evbd doctor` on this host, which checks the network card");
        }
    }

    /// Sends a train. What this host drops for want of room counts as sent and lost.
    fn attempt_or_drop(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: Option<u16>,
        at: Option<Instant>,
        bytes: usize,
    ) -> Result<usize, SendError> {
        match self.attempt(slices, segment, at) {
            Err(SendError::Io(error)) if no_room(&error) => {
                self.counts.dropped_here += 1;
                Ok(bytes)
            }
            outcome => outcome,
        }
    }

    /// Sends the segments of a train as single datagrams, for a kernel that does not cut trains.
    /// Returns the bytes that were sent.
    fn send_one_by_one(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: u16,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let mut rest = Cursor { slices, offset: 0 };
        let mut datagram = std::mem::take(&mut self.gathered);
        let mut sent = 0;
        let outcome = loop {
            rest.gather(usize::from(segment), &mut datagram);
            if datagram.is_empty() {
                break Ok(());
            }
            match self.attempt_or_drop(&[IoSlice::new(&datagram)], None, at, datagram.len()) {
                Ok(bytes) => sent += bytes,
                Err(error) => break Err(error),
            }
            self.counts.uncut += 1;
        };
        self.gathered = datagram;
        match outcome {
            // An error after some datagrams were sent is not returned, because the next call meets
            // the same error before it sends anything.
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }
}

/// Returns true if the error means that the kernel does not cut this train.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Part of the slices that is still to be sent.
struct Cursor<'a> {
    slices: &'a [IoSlice<'a>],
    /// Number of bytes of the first slice that are sent already.
    offset: usize,
}

impl Cursor<'_> {
    /// Puts the next `size` bytes into `datagram`, or fewer if fewer are left.
    fn gather(&mut self, size: usize, datagram: &mut Vec<u8>) {
        datagram.clear();
        while let Some((first, others)) = self.slices.split_first() {
            let rest = first.get(self.offset..).unwrap_or_default();
            let piece = rest.len().min(size - datagram.len());
            datagram.extend_from_slice(&rest[..piece]);
            if piece < rest.len() {
                self.offset += piece;
                return;
            }
            (self.slices, self.offset) = (others, 0);
        }
    }
}
