//! Round trips: ICMP echo to other hosts, and turns between two threads of this one.

#[cfg(test)]
mod tests;

use std::{
    io::{self, Read as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::AsFd as _,
    thread,
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Fact, Unavailable};
use crate::{clock, sys_path, sys_time, sys_txtime};

/// Echo requests to one host (RFC 792, RFC 4443).
#[derive(Debug)]
pub struct Pinger {
    socket: Socket,
    is_v4: bool,
    /// A raw socket hears all echoes of this host, an ICMP socket its own.
    raw: bool,
    identifier: u16,
    sequence: u16,
}

/// Outcome of one echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It was answered after that time.
    Answered(Duration),
    /// No answer came in time.
    Silence,
    /// It is larger than the device's MTU.
    TooLarge,
}

/// The header of an echo request, and that of IP without options.
const ECHO_HEADER: usize = 8;

impl Pinger {
    /// Ready to ask `to`. Packets are never cut.
    ///
    /// # Errors
    /// Fails if neither an ICMP socket (`net.ipv4.ping_group_range`) nor a raw one (`CAP_NET_RAW`)
    /// is allowed, or if there is no route to the address.
    pub fn new(to: IpAddr) -> Fact<Self> {
        let failed = |error: io::Error| Unavailable::from_io(format_args!("ping to {to}"), &error);
        let is_v4 = to.is_ipv4();
        let (domain, protocol) =
            if is_v4 { (Domain::IPV4, Protocol::ICMPV4) } else { (Domain::IPV6, Protocol::ICMPV6) };
        let open = |kind| Socket::new(domain, kind, Some(protocol));
        let (socket, raw) = match open(Type::DGRAM) {
            Ok(socket) => (socket, false),
            Err(_) => (open(Type::RAW).map_err(failed)?, true),
        };
        sys_path::never_fragment(&socket, is_v4).map_err(failed)?;
        socket.connect(&SocketAddr::new(to, 0).into()).map_err(failed)?;
        let identifier = (std::process::id() & 0xffff) as u16;
        Ok(Self { socket, is_v4, raw, identifier, sequence: 0 })
    }

    /// Asks once, with an IP packet of `size` bytes, and waits at most `patience`.
    ///
    /// # Errors
    /// Returns the system's error about the path, such as "host unreachable".
    pub fn ping(&mut self, size: usize, patience: Duration) -> io::Result<Echo> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = self.message(size);
        let start = clock::now();
        match self.socket.send(&message) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(Echo::TooLarge),
            sent => sent?,
        };
        let mut space = vec![0; message.len() + 128];
        loop {
            let passed = clock::now().since(start);
            let Some(rest) = patience.checked_sub(passed).filter(|rest| !rest.is_zero()) else {
                return Ok(Echo::Silence);
            };
            self.socket.set_read_timeout(Some(rest))?;
            let (received, end) = match (&self.socket).read(&mut space) {
                Ok(received) => (received, clock::now()),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(Echo::Silence);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if self.is_answer(&space[..received]) {
                return Ok(Echo::Answered(end.since(start)));
            }
        }
    }

    fn message(&self, size: usize) -> Vec<u8> {
        let ip_header = if self.is_v4 { 20 } else { 40 };
        let mut message = vec![0; size.saturating_sub(ip_header).max(ECHO_HEADER)];
        message[0] = if self.is_v4 { 8 } else { 128 };
        message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        message[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        // The kernel does the sum of ICMPv6, for it covers addresses.
        if self.is_v4 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        message
    }

    fn is_answer(&self, received: &[u8]) -> bool {
        let skip = match received.first() {
            Some(first) if self.raw && self.is_v4 => usize::from(first & 0x0f) * 4,
            _ => 0,
        };
        let Some(head) = received.get(skip..skip + ECHO_HEADER) else { return false };
        let answers = head[0] == if self.is_v4 { 0 } else { 129 };
        let is_ours = !self.raw || head[4..6] == self.identifier.to_be_bytes();
        answers && is_ours && head[6..8] == self.sequence.to_be_bytes()
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A question and its answer between two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time from the question to the answer.
    pub whole: Duration,
    /// The same time by stage; `None` where the kernel does not report receive times.
    pub stages: Option<TurnStages>,
}

/// Stages of a round trip, measured by one clock. The kernel receives within the write, so that a
/// stage begins where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStages {
    /// Time from before the write of the question to its receipt by the kernel.
    pub write: Duration,
    /// Time from that receipt to the read of the question.
    pub far_wake_up: Duration,
    /// Time from that read to the receipt of the answer.
    pub answer: Duration,
    /// Time from that receipt to the read of the answer.
    pub wake_up: Duration,
}

impl TurnStages {
    /// Returns the stages between five times of `CLOCK_REALTIME`, in nanoseconds; `None` if the
    /// clock was set back meanwhile.
    fn between(times: [u64; 5]) -> Option<Self> {
        let [asked, received, read, answered, end] = times;
        let between = |from: u64, to: u64| to.checked_sub(from).map(Duration::from_nanos);
        Some(Self {
            write: between(asked, received)?,
            far_wake_up: between(received, read)?,
            answer: between(read, answered)?,
            wake_up: between(answered, end)?,
        })
    }
}

/// Measures round trips between two threads of this host, one datagram at a time over the loopback:
/// two wake-ups and no wire.
///
/// # Errors
/// No sockets, or no thread.
pub fn loopback_turns(count: usize) -> Fact<Vec<Turn>> {
    turns(count).map_err(|error| Unavailable::from_io("round trips over the loopback", &error))
}

/// Length of the payload: the time at which the kernel received the question, and that of its read.
const WORD: usize = 16;

fn turns(count: usize) -> io::Result<Vec<Turn>> {
    /// Far more than a turn takes; without it, a lost datagram would hang us.
    const PATIENCE: Duration = Duration::from_millis(500);
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (here, there) = (open()?, open()?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(PATIENCE))?;
        // Without it, stages are not told.
        let _ = sys_txtime::set_receive_stamps(socket.as_fd());
    }
    let answerer = thread::spawn(move || {
        let mut word = [0; WORD];
        while let Ok(times) = receive(&there, &mut word)
            && there.send(&word_of(times)).is_ok()
        {}
    });
    let mut times = Vec::with_capacity(count);
    let mut word = [0; WORD];
    for _ in 0..count {
        let (start, asked) = (clock::now(), sys_time::realtime_nanos());
        here.send(&word)?;
        let (answered, end) = receive(&here, &mut word)?;
        let whole = clock::now().since(start);
        let (received, read) = times_of(&word);
        let is_told = received > 0 && answered > 0;
        let stages = TurnStages::between([asked, received, read, answered, end]);
        times.push(Turn { whole, stages: stages.filter(|_| is_told) });
    }
    // One byte ends the other thread.
    here.send(&word[..1])?;
    answerer.join().map_err(|_| io::Error::other("the answering thread ended"))?;
    Ok(times)
}

/// Takes a whole word; when the kernel received it (0: not told), and when that was read.
fn receive(socket: &UdpSocket, word: &mut [u8; WORD]) -> io::Result<(u64, u64)> {
    let (length, received) = if cfg!(target_os = "linux") {
        let received = sys_txtime::receive(socket.as_fd(), word)?;
        (received.length, received.realtime.unwrap_or(0))
    } else {
        (socket.recv(word)?, 0)
    };
    if length == WORD {
        Ok((received, sys_time::realtime_nanos()))
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn word_of((received, read): (u64, u64)) -> [u8; WORD] {
    let mut word = [0; WORD];
    word[..8].copy_from_slice(&received.to_ne_bytes());
    word[8..].copy_from_slice(&read.to_ne_bytes());
    word
}

fn times_of(word: &[u8; WORD]) -> (u64, u64) {
    let (halves, _) = word.as_chunks::<8>();
    let time = |index: usize| halves.get(index).map_or(0, |half| u64::from_ne_bytes(*half));
    (time(0), time(1))
}
