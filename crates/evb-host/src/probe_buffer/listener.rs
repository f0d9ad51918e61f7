//! `evbd probe-buffer listen`: waits for the senders, orders bursts, and records when each datagram
//! arrives.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant as Wall},
};

use evb_core::units::Bytes;
use evb_net::{clock, pacing::GapReceiver};
use socket2::SockRef;

use super::{
    search::{Rig, Share},
    trace::{Trace, Train},
    wire::{MOST, Message, Numbered, Order, receive_exactly},
};

/// Time limit for a new connection's first message, so that a silent peer does not delay the
/// senders.
const HELLO: Duration = Duration::from_secs(2);
/// Time limit for a sender's answer to an order, in addition to the duration of the burst.
const ANSWER: Duration = Duration::from_secs(10);
/// Time from an order to its first datagram.
const LEAD: Duration = Duration::from_millis(15);
/// Time without an arriving datagram after which the missing datagrams count as lost.
const SILENCE: Duration = Duration::from_millis(120);
/// Number of datagrams that each sender sends ahead of a burst; the smallest of their delays
/// counts.
const AHEAD: u32 = 12;
/// Number of pings that compare the clocks of two hosts; the ping with the shortest round trip
/// counts.
const PINGS: u64 = 8;
/// Size of the socket's receive buffer, large enough that this host does not lose datagrams that
/// the port carried.
const RECEIVE_BUFFER: Bytes = Bytes::mib(32);
/// Memory that a datagram can take in a socket, as a multiple of its length (`skb->truesize`).
/// `Listener::collect` counts only half of it.
const IN_SOCKET: u64 = 6;
/// Bytes of the UDP and IPv4 headers.
const V4: u64 = 28;
/// Bytes of the UDP and IPv6 headers.
const V6: u64 = 48;
const ETHERNET: u64 = 14;

/// The reason why the listener ended without a result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListenError {
    /// The address does not belong to this host, or its port is in use.
    #[error("cannot listen on {address}: {reason}; give an address of this host and a free port")]
    Bind { address: SocketAddr, reason: io::Error },
    /// Too few senders connected within the time limit.
    #[error(
        "only {came} of {wanted} senders connected within {patience:?}; start this listener again, and on each sender's host: evbd probe-buffer send {address} --bind ITS_ADDRESS"
    )]
    Alone { came: usize, wanted: usize, patience: Duration, address: SocketAddr },
    /// A sender closed its connection, or the connection failed.
    #[error(
        "the connection to sender {sender}, {address}, ended, so nothing was measured: {reason}; correct what the sender's output says, then start the listener and all senders again"
    )]
    Gone { sender: usize, address: SocketAddr, reason: io::Error },
    /// A sender sent a message that violates the protocol.
    #[error(
        "sender {sender}, {address}, sent an unexpected answer, so nothing was measured; install the same release of evb on both hosts"
    )]
    Confused { sender: usize, address: SocketAddr },
    /// No datagram of a sender arrives, for example because a firewall drops them.
    #[error(
        "no datagram of sender {sender}, {address}, arrives: open UDP port {port} in the firewalls of this host and on the way"
    )]
    Closed { sender: usize, address: SocketAddr, port: u16 },
    /// The path of a sender loses datagrams that are too far apart to form a queue.
    #[error(
        "the path of sender {sender}, {address}, loses {lost} of {sent} datagrams without any other traffic, so the \
         cause is not a full buffer; look at the error counters of its switch ports, and of both hosts (`ip -s link`), then repeat the probe"
    )]
    Lossy { sender: usize, address: SocketAddr, lost: u64, sent: u64 },
    /// The UDP socket returned an error.
    #[error(
        "the UDP socket of this listener failed: {0}; see that the network device of this host is up (`ip link`), then repeat the probe"
    )]
    Socket(io::Error),
}

/// A sender, with its connection to the listener.
#[derive(Debug)]
struct Sender {
    /// Number of the sender for people, counted from 1.
    number: usize,
    control: TcpStream,
    address: SocketAddr,
    /// Difference between the clocks: the sender's time minus the listener's, in nanoseconds.
    offset: i64,
}

impl Sender {
    fn tell(&mut self, message: Message) -> Result<(), ListenError> {
        self.control.write_all(&message.encode()).map_err(|reason| self.gone(reason))
    }

    fn hear(&mut self) -> Result<Message, ListenError> {
        let heard = Message::receive(&mut self.control, ANSWER).map_err(|reason| self.gone(reason))?;
        heard.ok_or_else(|| self.confused())
    }

    fn gone(&self, reason: io::Error) -> ListenError {
        ListenError::Gone { sender: self.number, address: self.address, reason }
    }

    fn confused(&self) -> ListenError {
        ListenError::Confused { sender: self.number, address: self.address }
    }

    /// Measures the offset of the sender's clock by the ping with the shortest round trip. The
    /// offset only has to be precise enough for a common start of the senders; the results use only
    /// differences between delays.
    fn compare_clocks(&mut self) -> Result<(), ListenError> {
        let mut best = u64::MAX;
        for nonce in 0..PINGS {
            let asked = clock::now();
            self.tell(Message::Ping { nonce })?;
            let nanos = match self.hear()? {
                Message::Pong { nonce: echoed, nanos } if echoed == nonce => nanos,
                _ => return Err(self.confused()),
            };
            let there_and_back = clock::now().since(asked).as_nanos() as u64;
            if there_and_back < best {
                best = there_and_back;
                let ours = asked.as_nanos() + there_and_back / 2;
                self.offset = nanos.wrapping_sub(ours) as i64;
            }
        }
        Ok(())
    }

    /// Reads the sending times of the sender's datagrams. The sender must report as many times as
    /// the order has datagrams, in increasing order.
    fn read_times(&mut self, order: &Order, train: &mut Train) -> Result<(), ListenError> {
        train.errors = match self.hear()? {
            Message::Sent { burst, count, errors } if (burst, count) == (order.burst, order.total()) => {
                errors
            }
            _ => return Err(self.confused()),
        };
        let mut bytes = vec![0; order.total() as usize * 4];
        receive_exactly(&mut self.control, &mut bytes, ANSWER).map_err(|reason| self.gone(reason))?;
        let (times, _) = bytes.as_chunks::<4>();
        let since_start = times.iter().map(|time| i64::from(u32::from_le_bytes(*time)));
        train.sent = since_start.map(|time| order.start as i64 + time).collect();
        if train.sent.is_sorted() { Ok(()) } else { Err(self.confused()) }
    }
}

/// The listening end: its connections to the senders, and the socket that receives their datagrams.
pub(super) struct Listener<'p> {
    senders: Vec<Sender>,
    receiver: GapReceiver,
    local: SocketAddr,
    token: u64,
    payload: u16,
    burst: u32,
    until: Wall,
    progress: Option<&'p mut dyn FnMut(&str)>,
    /// For each sender, the number of lost and the number of all datagrams that it sent ahead of
    /// bursts.
    ahead: Vec<(u64, u64)>,
}

/// The operator's settings of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    pub(super) address: SocketAddr,
    pub(super) senders: usize,
    pub(super) mtu: u16,
    /// Longest time to wait for the senders.
    pub(super) patience: Duration,
    /// Time after which no further burst is started.
    pub(super) time: Duration,
}

impl<'p> Listener<'p> {
    /// Waits until all senders have connected, and compares their clocks.
    pub(super) fn gather(
        wanted: Gathering,
        mut progress: Option<&'p mut dyn FnMut(&str)>,
    ) -> Result<Self, ListenError> {
        let bind = |reason| ListenError::Bind { address: wanted.address, reason };
        let door = TcpListener::bind(wanted.address).map_err(bind)?;
        let local = door.local_addr().map_err(bind)?;
        let receiver = GapReceiver::bind(local, Some(RECEIVE_BUFFER)).map_err(bind)?;
        let header = if local.is_ipv4() { V4 } else { V6 } as u16;
        let random = RandomState::new().build_hasher().finish();
        let mut listener = Self {
            senders: Vec::new(),
            receiver,
            local,
            token: random,
            payload: wanted.mtu.saturating_sub(header),
            burst: 0,
            until: Wall::now(),
            progress: None,
            ahead: vec![(0, 0); wanted.senders],
        };
        door.set_nonblocking(true).map_err(bind)?;
        let began = Wall::now();
        while listener.senders.len() < wanted.senders {
            if began.elapsed() > wanted.patience {
                let (came, patience, address) = (listener.senders.len(), wanted.patience, wanted.address);
                return Err(ListenError::Alone { came, wanted: wanted.senders, patience, address });
            }
            match door.accept() {
                Ok((control, address)) => {
                    // A peer that does not speak the protocol is ignored.
                    if listener.greet(control, address).is_ok()
                        && let Some(progress) = &mut progress
                    {
                        progress(&format!(
                            "sender {} of {} has connected: {address}",
                            listener.senders.len(),
                            wanted.senders
                        ));
                    }
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
        for sender in &mut listener.senders {
            sender.compare_clocks()?;
        }
        listener.progress = progress;
        listener.until = Wall::now() + wanted.time;
        Ok(listener)
    }

    /// Greets a sender, and tells it to where and how large to send.
    fn greet(&mut self, mut control: TcpStream, address: SocketAddr) -> io::Result<()> {
        control.set_nonblocking(false)?;
        control.set_nodelay(true)?;
        control.set_write_timeout(Some(HELLO))?;
        if Message::receive(&mut control, HELLO)? != Some(Message::Hello) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let sender = u16::try_from(self.senders.len()).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        let (port, payload, token) = (self.local.port(), self.payload, self.token);
        control.write_all(&Message::Welcome { sender, port, payload, token }.encode())?;
        self.senders.push(Sender { number: self.senders.len() + 1, control, address, offset: 0 });
        Ok(())
    }

    /// Tells the senders the result and the end of the measurement.
    pub(super) fn end(mut self, found: Option<Bytes>) {
        let bytes = found.map_or(0, Bytes::count);
        for sender in &mut self.senders {
            // An error means that the sender has left already.
            let _ = sender.tell(Message::End { bytes });
        }
    }

    /// Records arrivals until all datagrams have arrived, or none arrives for the time [`SILENCE`].
    fn collect(&mut self, trace: &mut Trace, end_of_burst: u64) -> Result<(), ListenError> {
        let mut missing: usize = trace.trains.iter().map(|train| train.received.len()).sum();
        let room = SockRef::from(&self.receiver).recv_buffer_size().unwrap_or(0) as u64;
        if missing as u64 * IN_SOCKET * trace.frame / 2 < room {
            // The kernel records the times of arrival. If all datagrams fit into the socket's
            // buffer, this process sleeps during the burst, so that it takes no core from senders
            // on the same machine.
            thread::sleep(Duration::from_nanos(end_of_burst.saturating_sub(clock::now().as_nanos())));
        }
        let mut last = clock::now();
        while missing > 0 {
            let receipt = self.receiver.receive(SILENCE / 4).map_err(ListenError::Socket)?;
            let now = clock::now();
            let Some(receipt) = receipt else {
                if now.as_nanos() > end_of_burst && now.since(last) > SILENCE {
                    break;
                }
                continue;
            };
            let ours = |numbered: &Numbered| numbered.token == self.token && numbered.burst == self.burst;
            let numbered = Numbered::decode(self.receiver.payload(&receipt)).filter(ours);
            let place = numbered.and_then(|numbered| {
                let train = trace.trains.get_mut(usize::from(numbered.sender))?;
                train.received.get_mut(numbered.index as usize)
            });
            if let Some(place @ None) = place {
                *place = Some(receipt.at.as_nanos() as i64);
                (missing, last) = (missing - 1, now);
            } else if now.as_nanos() > end_of_burst && now.since(last) > SILENCE {
                // Datagrams that do not belong to this burst do not prolong the wait.
                break;
            }
        }
        Ok(())
    }

    /// Returns an error if a sender's path loses datagrams ahead of bursts, which are too far apart
    /// to form a queue.
    fn judge_path(&mut self, trace: &Trace) -> Result<(), ListenError> {
        for (sender, train) in trace.trains.iter().enumerate().filter(|(_, train)| train.ahead > 0) {
            let address = self.senders[sender].address;
            let came = train.received.iter().take(train.ahead).flatten().count() as u64;
            let (lost, sent) = &mut self.ahead[sender];
            *sent += train.ahead as u64;
            *lost += train.ahead as u64 - came;
            if came == 0 && lost == sent {
                return Err(ListenError::Closed { sender: sender + 1, address, port: self.local.port() });
            }
            // A few datagrams may be lost by chance; more than a tenth of many may not.
            if *lost * 10 > *sent && *lost > 6 {
                return Err(ListenError::Lossy { sender: sender + 1, address, lost: *lost, sent: *sent });
            }
        }
        Ok(())
    }
}

impl Rig for Listener<'_> {
    type Error = ListenError;

    fn frame(&self) -> Bytes {
        let header = if self.local.is_ipv4() { V4 } else { V6 };
        Bytes::new(u64::from(self.payload) + header + ETHERNET)
    }

    fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Orders a burst of all senders, and collects what arrives and when it was sent.
    fn burst(&mut self, shares: &[Share], ahead_spacing: u64) -> Result<Trace, ListenError> {
        self.burst += 1;
        let parts = shares.iter().filter(|share| share.count > 0).count().max(1) as u64;
        let begin = (clock::now() + LEAD).as_nanos();
        let drops_before = socket_drops(self.local);
        let mut trace = Trace { frame: self.frame().count(), ..Trace::default() };
        let mut orders = Vec::new();
        let (mut end_of_burst, mut part) = (begin, 0);
        for (sender, share) in shares.iter().enumerate() {
            let mut order = Order {
                burst: self.burst,
                ahead: 0,
                count: 0,
                start: 0,
                ahead_spacing,
                phase: 0,
                spacing: share.spacing,
            };
            if share.count > 0 {
                // Datagrams ahead of the burst must not meet in the port, so that each sender
                // starts at another phase. All senders send their parts of the burst at the same
                // time.
                order.phase = ahead_spacing / parts * part;
                part += 1;
                (order.ahead, order.count) = (AHEAD, share.count.min(MOST - AHEAD));
                end_of_burst = end_of_burst.max(begin + order.due(order.total()));
                order.start = begin.wrapping_add_signed(self.senders[sender].offset);
            }
            let received = vec![None; order.total() as usize];
            trace.trains.push(Train { ahead: order.ahead as usize, received, ..Train::default() });
            orders.push(order);
        }
        for (sender, order) in orders.iter().enumerate().filter(|(_, order)| order.count > 0) {
            self.senders[sender].tell(Message::Order(*order))?;
        }
        self.collect(&mut trace, end_of_burst)?;
        for (sender, order) in orders.iter().enumerate().filter(|(_, order)| order.count > 0) {
            self.senders[sender].read_times(order, &mut trace.trains[sender])?;
        }
        trace.host_drops = socket_drops(self.local).saturating_sub(drops_before);
        self.judge_path(&trace)?;
        Ok(trace)
    }

    fn may_go_on(&self) -> bool {
        Wall::now() < self.until
    }

    fn say(&mut self, progress: &str) {
        if let Some(say) = &mut self.progress {
            say(progress);
        }
    }
}

/// Returns the number of datagrams that the kernel dropped because the socket of this port was
/// full: the last column of /proc/net/udp.
fn socket_drops(local: SocketAddr) -> u64 {
    let file = if local.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    drops_of_port(&fs::read_to_string(file).unwrap_or_default(), local.port())
}

pub(super) fn drops_of_port(table: &str, port: u16) -> u64 {
    let wanted = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = lines.filter(|columns| columns.get(1).is_some_and(|local| local.ends_with(&wanted)));
    ours.filter_map(|columns| columns.last()?.parse::<u64>().ok()).sum()
}
