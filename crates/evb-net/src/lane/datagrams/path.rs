//! [`probe`]: the size of datagrams that reach a builder, and the time to its answer
//! (docs/reference/protocol.md UDP-5).

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    net::SocketAddr,
    task::Poll,
    time::Duration,
};

use evb_core::{
    lane::{Envelope, Tags},
    time::Instant,
    wire::datagram::{
        Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind, IPV4_UDP, IPV6_UDP, MIN_MTU,
    },
};

use super::super::PathError;
use crate::{
    clock,
    pacing::{MAX_TRAIN, SendError},
    security::TAG_LENGTH,
    udp::{DatagramSocket, Progress},
};

/// Packet sizes of common networks, tried in addition to the configured size: jumbo frames, FDDI,
/// Ethernet, PPPoE, tunnels, and the minimum that every IPv6 path carries.
const SIZES: [u32; 7] = [9000, 4352, 1500, 1492, 1450, 1400, MIN_MTU as u32];

/// Number of attempts with each packet size; few suffice, because losses are rare.
const TRIES: u32 = 4;

/// Minimum time to wait for the reply to the first probe of a size; the time doubles with each
/// attempt.
const PATIENCE: Duration = Duration::from_millis(20);

/// Properties of the path to a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Size of the largest IP packet that reaches the builder, among the sizes tried.
    pub mtu: u32,
    /// Maximum length of a datagram in bytes, including header and tag.
    pub datagram: usize,
    /// Time from a probe to its reply.
    pub round_trip: Duration,
}

/// Finds the largest packets, of at most `mtu` bytes, that reach the builder and are answered.
/// `estimate` is roughly the time until a reply.
///
/// # Errors
/// Returns a [`PathError`]; the lane then cannot use datagrams.
pub async fn probe(
    socket: &mut DatagramSocket,
    peer: SocketAddr,
    association: Association,
    mtu: u32,
    estimate: Duration,
) -> Result<Path, PathError> {
    probe_tagged(socket, peer, association, mtu, estimate, &mut None).await
}

/// Does the same as [`probe`], with datagrams that carry tags if `tags` is given.
///
/// # Errors
/// Returns a [`PathError`]; the lane then cannot use datagrams.
pub async fn probe_tagged(
    socket: &mut DatagramSocket,
    peer: SocketAddr,
    association: Association,
    mtu: u32,
    estimate: Duration,
    tags: &mut Tags,
) -> Result<Path, PathError> {
    let fault = |reason| PathError::Io { peer, reason };
    let headers = if peer.is_ipv4() { IPV4_UDP } else { IPV6_UDP };
    let most = mtu.min(socket.mtu().map_err(fault)?);
    // The device's size is tried first, and then the usual smaller ones.
    let sizes = std::iter::once(most).chain(SIZES.into_iter().filter(|size| *size < most));
    let mut sequence = 0;
    for mtu in sizes {
        let datagram =
            (mtu as usize).saturating_sub(headers).clamp(DATAGRAM_HEADER + TAG_LENGTH + 1, MAX_TRAIN);
        for attempt in 0..TRIES {
            sequence += 1;
            let sent = clock::now();
            match send(socket, association, sequence, datagram, tags) {
                Ok(()) => {}
                Err(SendError::TooLarge) => break,
                Err(error) => return Err(fault(io::Error::other(error))),
            }
            let patience = (estimate * 3).max(PATIENCE) * (1 << attempt);
            let answer = await_reply(socket, association, datagram, tags);
            match tokio::time::timeout(patience, answer).await {
                Ok(Ok(at)) => return Ok(Path { mtu, datagram, round_trip: at.since(sent) }),
                Ok(Err(error)) => return Err(fault(error)),
                Err(_) => {}
            }
        }
    }
    Err(PathError::Silence { peer })
}

/// Sends a probe of `length` bytes, including header and tag. The rest is filled with zeros.
fn send(
    socket: &mut DatagramSocket,
    association: Association,
    sequence: u32,
    length: usize,
    tags: &mut Tags,
) -> Result<(), SendError> {
    let header =
        DatagramHeader { kind: DatagramKind::Probe, request: 0, association, sequence, heard: 0, offset: 0 };
    let tag_length = if tags.is_some() { TAG_LENGTH } else { 0 };
    let padding = vec![0; length - DATAGRAM_HEADER - tag_length];
    let Envelope { header, tag } = Envelope::of(&header, &[&padding], tags);
    let segment = u16::try_from(length).unwrap_or(u16::MAX);
    let mut slices = vec![IoSlice::new(&header), IoSlice::new(&padding)];
    slices.extend(tag.as_ref().map(|tag| IoSlice::new(tag)));
    match socket.send_train(&slices, segment, None) {
        // A probe for which the socket has no room counts as lost in the network.
        Ok(_) | Err(SendError::Full) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits for the reply to a probe of `length` bytes, and returns the time of its arrival.
async fn await_reply(
    socket: &mut DatagramSocket,
    association: Association,
    length: usize,
    tags: &mut Tags,
) -> io::Result<Instant> {
    poll_fn(|cx| {
        let mut answered = false;
        loop {
            let progress = socket.poll_recv(cx, 64, |_, run| {
                let headers = run.datagrams().filter_map(|datagram| Envelope::open(datagram, tags).ok());
                answered |= headers.into_iter().any(|(header, _)| {
                    header.kind == DatagramKind::ProbeReply
                        && header.association == association
                        && header.offset == length as u64
                });
            });
            match progress {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(_) if answered => return Poll::Ready(Ok(clock::now())),
                Ok(Progress::Idle | Progress::Drained) => return Poll::Pending,
                Ok(Progress::More) => {}
            }
        }
    })
    .await
}
