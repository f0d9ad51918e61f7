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
    time::Instant,
    wire::datagram::{
        Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind, IPV4_UDP, IPV6_UDP, MIN_MTU,
    },
};

use super::{open, train::envelope};
use crate::{
    clock,
    pacing::{MAX_TRAIN, SendError},
    security::{DatagramTags, TAG_LENGTH},
    udp::{DatagramSocket, Progress},
};

/// Packet sizes of common networks, tried beside the configured one: jumbo frames, FDDI, Ethernet,
/// PPPoE, tunnels, and what every IPv6 path carries.
const SIZES: [u32; 7] = [9000, 4352, 1500, 1492, 1450, 1400, MIN_MTU as u32];

/// Attempts with each size: losses are rare, and few sizes are wrong.
const TRIES: u32 = 4;

/// The least time that an answer is waited for at first; doubled for each try.
const PATIENCE: Duration = Duration::from_millis(20);

/// Properties of the path to a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The largest IP packet that gets through, of those tried.
    pub mtu: u32,
    /// The most bytes of a datagram, header and tag included.
    pub datagram: usize,
    /// Time until the answer came.
    pub round_trip: Duration,
}

/// Reason why datagrams cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// No reply to any size.
    #[error(
        "{peer} answers no datagram (UDP), though it answers over TCP: allow UDP to that port in the firewalls on the way"
    )]
    Silence {
        /// The builder.
        peer: SocketAddr,
    },
    /// The network or the system failed.
    #[error("cannot send datagrams to {peer}: {reason}")]
    Io {
        /// The builder.
        peer: SocketAddr,
        /// The system's words.
        reason: io::Error,
    },
}

/// Finds the largest packets, of at most `mtu` bytes, that reach the builder and are answered.
/// `estimate` is roughly the time to an answer.
///
/// # Errors
/// [`PathError`]; there is no lane by datagrams.
pub async fn probe(
    socket: &mut DatagramSocket,
    peer: SocketAddr,
    association: Association,
    mtu: u32,
    estimate: Duration,
) -> Result<Path, PathError> {
    probe_tagged(socket, peer, association, mtu, estimate, &mut None).await
}

/// Does the same as [`probe`] where datagrams carry tags.
///
/// # Errors
/// [`PathError`]; there is no lane by datagrams.
pub async fn probe_tagged(
    socket: &mut DatagramSocket,
    peer: SocketAddr,
    association: Association,
    mtu: u32,
    estimate: Duration,
    tags: &mut Option<DatagramTags>,
) -> Result<Path, PathError> {
    let fault = |reason| PathError::Io { peer, reason };
    let headers = if peer.is_ipv4() { IPV4_UDP } else { IPV6_UDP };
    let most = mtu.min(socket.mtu().map_err(fault)?);
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

fn send(
    socket: &mut DatagramSocket,
    association: Association,
    sequence: u32,
    length: usize,
    tags: &mut Option<DatagramTags>,
) -> Result<(), SendError> {
    let header =
        DatagramHeader { kind: DatagramKind::Probe, request: 0, association, sequence, heard: 0, offset: 0 };
    let tag_length = if tags.is_some() { TAG_LENGTH } else { 0 };
    let padding = vec![0; length - DATAGRAM_HEADER - tag_length];
    let (header, tag) = envelope(&header, [&padding[..]], tags.as_mut());
    let segment = u16::try_from(length).unwrap_or(u16::MAX);
    let mut slices = vec![IoSlice::new(&header), IoSlice::new(&padding)];
    slices.extend(tag.as_ref().map(|tag| IoSlice::new(tag)));
    match socket.send_train(&slices, segment, None) {
        // As if the network had lost it.
        Ok(_) | Err(SendError::Full) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the time at which a reply to a probe of that length came.
async fn await_reply(
    socket: &mut DatagramSocket,
    association: Association,
    length: usize,
    tags: &mut Option<DatagramTags>,
) -> io::Result<Instant> {
    poll_fn(|cx| {
        let mut answered = false;
        loop {
            let progress = socket.poll_recv(cx, 64, |_, run| {
                let headers = run.datagrams().filter_map(|datagram| open(datagram, tags.as_mut()).ok());
                answered |= headers.into_iter().any(|(header, _)| {
                    header.kind == DatagramKind::ProbeReply
                        && header.association == association
                        && header.offset == length as u64
                });
            });
            match progress {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(_) if answered => return Poll::Ready(Ok(clock::now())),
                Ok(Progress::Drained) => return Poll::Pending,
                Ok(Progress::More) => {}
            }
        }
    })
    .await
}
