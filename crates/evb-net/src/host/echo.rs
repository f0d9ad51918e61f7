//! Round-trip times: ICMP echo to other hosts, and exchanges between two threads of this host.

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

/// Sender of ICMP echo requests ("ping") to one host (RFC 792, RFC 4443).
#[derive(Debug)]
pub struct Pinger {
    socket: Socket,
    is_v4: bool,
    /// True for a raw socket, which receives all ICMP echo replies to this host; an ICMP socket
    /// receives only its own.
    raw: bool,
    identifier: u16,
    sequence: u16,
}

/// Outcome of one echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The reply arrived after this time.
    Answered(Duration),
    /// No reply arrived within the time limit.
    Silence,
    /// The request is larger than the device's MTU.
    TooLarge,
}

/// Length of the header of an ICMP echo message in bytes.
const ECHO_HEADER: usize = 8;

impl Pinger {
    /// Opens a socket for echo requests to `to`, which are never fragmented.
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

    /// Sends one echo request in an IP packet of `size` bytes, and waits at most `patience` for the
    /// reply.
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

    /// Returns an echo request of ICMP or ICMPv6 that fills an IP packet of `size` bytes.
    fn message(&self, size: usize) -> Vec<u8> {
        let ip_header = if self.is_v4 { 20 } else { 40 };
        let mut message = vec![0; size.saturating_sub(ip_header).max(ECHO_HEADER)];
        message[0] = if self.is_v4 { 8 } else { 128 };
        message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        message[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        // The kernel computes the ICMPv6 checksum, because this checksum also covers the IP
        // addresses.
        if self.is_v4 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        message
    }

    /// Returns true if the received bytes are the answer to the last request.
    fn is_answer(&self, received: &[u8]) -> bool {
        // A raw socket of IPv4 also returns the IP header, whose length is given in words of four
        // bytes.
        let skip = match received.first() {
            Some(first) if self.raw && self.is_v4 => usize::from(first & 0x0f) * 4,
            _ => 0,
        };
        let Some(head) = received.get(skip..skip + ECHO_HEADER) else { return false };
        let answers = head[0] == if self.is_v4 { 0 } else { 129 };
        // Without a raw socket, the kernel sets the identifier and sorts the answers.
        let is_ours = !self.raw || head[4..6] == self.identifier.to_be_bytes();
        answers && is_ours && head[6..8] == self.sequence.to_be_bytes()
    }
}

/// Returns the Internet checksum of a message (RFC 1071).
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

/// One round trip between two threads: a question and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Time from the question to the answer.
    pub whole: Duration,
    /// Durations of the stages of the round trip; `None` if the kernel does not report receive
    /// times.
    pub stages: Option<TurnStages>,
}

/// Durations of the stages of a round trip between two threads, measured by one clock. Over the
/// loopback, the kernel receives a datagram within the sender's write, so each stage begins where
/// the previous stage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStages {
    /// Time from the start of the write of the question to its receipt by the kernel.
    pub write: Duration,
    /// Time from the kernel's receipt of the question to its read by the answering thread.
    pub far_wake_up: Duration,
    /// Time from the read of the question to the kernel's receipt of the answer.
    pub answer: Duration,
    /// Time from the kernel's receipt of the answer to its read by the asking thread.
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

/// Measures `count` round trips between two threads of this host, one datagram at a time over the
/// loopback. Each round trip includes two thread wake-ups, but no network.
///
/// # Errors
/// Fails if sockets cannot be opened or used, or if the answering thread fails.
pub fn loopback_turns(count: usize) -> Fact<Vec<Turn>> {
    turns(count).map_err(|error| Unavailable::from_io("round trips over the loopback", &error))
}

/// Length of a payload in bytes. The payload holds two times: the kernel's receipt of the question,
/// and its read by a thread.
const WORD: usize = 16;

/// Sends datagrams to another thread and back on the loopback, one after the other, and returns how
/// long each took and in which stages.
fn turns(count: usize) -> io::Result<Vec<Turn>> {
    /// Read timeout, far longer than a round trip takes; without it, a lost datagram would block
    /// the measurement forever.
    const PATIENCE: Duration = Duration::from_millis(500);
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (here, there) = (open()?, open()?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(PATIENCE))?;
        // If the kernel does not report receive times, the stages are left out.
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
    // A datagram of one byte ends the answering thread.
    here.send(&word[..1])?;
    answerer.join().map_err(|_| io::Error::other("the answering thread ended"))?;
    Ok(times)
}

/// Receives a datagram of `WORD` bytes. Returns the time at which the kernel received it (0 if the
/// kernel does not report it), and the time at which it was read.
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
