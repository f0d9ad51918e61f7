//! Triggers over the network: [`TriggerFeed`] sends triggers, as a pseudo-trigger system does, and
//! [`TriggerListener`] receives them. `docs/reference/triggers.md` specifies the format.

#[cfg(test)]
mod tests;

use std::{
    io, iter,
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    time::Instant,
    trigger::{
        Trigger, TriggerKind,
        announcement::{LENGTH, parse_datagram},
    },
    units::Frequency,
};
use evb_net::{clock, handshake::RefusalLog, multicast, timer::Timer};
use tokio::{
    io::{AsyncWriteExt as _, ReadBuf},
    net::{TcpStream, UdpSocket},
};

pub use evb_core::trigger::announcement::{Announcement, Asked};

/// Size of the longest datagram that is examined.
const MAX_DATAGRAM: usize = 64;

/// Receives triggers as datagrams, at one address or in a multicast group. The supervisor uses this
/// listener, and so can sources that make their fragments at trigger time.
///
/// ```
/// use evb::trigger_feed::{Asked, TriggerFeed, TriggerListener};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut triggers = TriggerListener::bind(&["127.0.0.1:0".parse()?]).await?;
/// let mut feed = TriggerFeed::datagrams(triggers.address()?, None).await?;
/// feed.tell(2).await?;
/// for number in 1..=2 {
///     match triggers.asked().await {
///         Asked::Announced(announcement) => assert_eq!(announcement.number, number),
///         Asked::Count(count) => println!("{count} triggers without a number"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TriggerListener {
    socket: UdpSocket,
    log: RefusalLog,
}

impl TriggerListener {
    /// Listens at the first of the given addresses that is available.
    ///
    /// # Errors
    /// The operating system's error: the address is not local, or it is taken.
    pub async fn bind(addresses: &[SocketAddr]) -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind(addresses).await?, log: RefusalLog::new("the trigger port") })
    }

    /// Joins a multicast group, IPv4 or IPv6, besides other listeners of this host. The interface
    /// is a local address (IPv4) or a name; `None` leaves the choice to the routing table.
    ///
    /// # Errors
    /// The operating system's error: the address is not a multicast group, or the interface does
    /// not exist.
    pub fn join(group: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = multicast::join(group, interface)?;
        Ok(Self { socket, log: RefusalLog::new("the trigger port") })
    }

    /// Returns the address at which this listener receives datagrams.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the next trigger message; other datagrams are logged and ignored.
    pub fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<Asked> {
        loop {
            let mut bytes = [0; MAX_DATAGRAM];
            let mut buffer = ReadBuf::new(&mut bytes);
            match self.socket.poll_recv_from(cx, &mut buffer) {
                Poll::Ready(Ok(from)) => match parse_datagram(buffer.filled()) {
                    Ok(asked) => return Poll::Ready(asked),
                    Err(error) => self.log.record(
                        format_args!("ignored a message from {from}, and made no event of it"),
                        &error,
                    ),
                },
                // The error is an ICMP answer to a datagram that this socket never sent.
                Poll::Ready(Err(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Waits for the next trigger message. Cancel safety: a call that is dropped has lost no
    /// message.
    pub async fn asked(&mut self) -> Asked {
        std::future::poll_fn(|cx| self.poll_asked(cx)).await
    }
}

/// Sends triggers over the network, with numbers from 1 on: a pseudo-trigger for tests and for
/// sources without hardware.
///
/// ```
/// use std::time::Duration;
///
/// use evb::{
///     prelude::*,
///     trigger_feed::{TriggerFeed, TriggerListener},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let triggers = TriggerListener::bind(&["127.0.0.1:0".parse()?]).await?;
/// # let address = triggers.address()?;
/// let rate: Frequency = "2 kHz".parse()?;
/// let mut feed = TriggerFeed::datagrams(address, None).await?;
/// feed.periodic(rate, Duration::from_millis(5)).await?;
/// assert_eq!(feed.sent(), 10);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TriggerFeed {
    outlet: Outlet,
    sent: u64,
    refused: u64,
    stops_when_refused: bool,
    largest_delay: Duration,
}

#[derive(Debug)]
enum Outlet {
    Datagrams(UdpSocket),
    Lines(TcpStream),
}

impl TriggerFeed {
    /// Sends announcements by datagram to an address, or to a multicast group (through the given
    /// interface, and not beyond the local network).
    ///
    /// # Errors
    /// The operating system's error: there is no route, or the interface does not exist.
    pub async fn datagrams(to: SocketAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = multicast::sender(to, interface).await?;
        Ok(Self::new(Outlet::Datagrams(socket)))
    }

    /// Sends lines over TCP to a supervisor's trigger port.
    ///
    /// # Errors
    /// The operating system's error: no process listens at this address.
    pub async fn lines(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self::new(Outlet::Lines(stream)))
    }

    fn new(outlet: Outlet) -> Self {
        let (sent, refused, largest_delay) = (0, 0, Duration::ZERO);
        Self { outlet, sent, refused, stops_when_refused: false, largest_delay }
    }

    /// Makes it an error if the receiving host answers that no process listens at the address.
    #[must_use]
    pub fn stopping_when_refused(self) -> Self {
        Self { stops_when_refused: true, ..self }
    }

    /// Returns the number of triggers sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of answers by the receiving host that no process listens at the address.
    /// A host need not answer every datagram, and no host answers a datagram to a group.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the largest delay of a trigger of [`run`](Self::run) behind its nominal time, until
    /// it was given to the operating system together with the other triggers that were due.
    pub fn largest_delay(&self) -> Duration {
        self.largest_delay
    }

    /// Sends `count` triggers now.
    ///
    /// # Errors
    /// An error of the connection. A datagram to a port on which no process listens is an error
    /// only after [`stopping_when_refused`](Self::stopping_when_refused).
    pub async fn tell(&mut self, count: u64) -> io::Result<()> {
        match &mut self.outlet {
            Outlet::Lines(stream) => {
                stream.write_all(format!("{count}\n").as_bytes()).await?;
                self.sent += count;
            }
            Outlet::Datagrams(socket) => {
                for _ in 0..count {
                    let announcement =
                        Announcement { number: self.sent + 1, sent_ns: clock::now().as_nanos() };
                    let bytes: [u8; LENGTH] = announcement.encode();
                    // The kernel reports the answer to an earlier datagram instead of sending this
                    // one, so this datagram is sent once more.
                    for _ in 0..2 {
                        match socket.send(&bytes).await {
                            Ok(_) => break,
                            Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => {
                                return Err(error);
                            }
                            Err(error) => {
                                self.refused = refused(self.refused, self.stops_when_refused, error)?
                            }
                        }
                    }
                    self.sent += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks for an answer to the last datagrams that no process listens at the address.
    ///
    /// # Errors
    /// An error of the connection, as in [`tell`](Self::tell).
    pub fn check(&mut self) -> io::Result<()> {
        let Outlet::Datagrams(socket) = &self.outlet else { return Ok(()) };
        match socket.take_error()? {
            None => Ok(()),
            Some(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
            Some(error) => {
                self.refused = refused(self.refused, self.stops_when_refused, error)?;
                Ok(())
            }
        }
    }

    /// Sends triggers of the given kind and rate until `count` is reached, or without end if there
    /// is no count. Triggers that are due together are sent together. Cancel safety: a call that is
    /// dropped has counted the triggers that it sent.
    ///
    /// # Errors
    /// The errors of [`tell`](Self::tell), and the operating system's refusal of a timer.
    pub async fn run(&mut self, kind: TriggerKind, seed: u64, count: Option<u64>) -> io::Result<()> {
        let mut trigger = Trigger::new(kind, seed, clock::now());
        self.follow(iter::from_fn(|| trigger.pop_due(Instant::FAR_FUTURE)), count).await
    }

    /// Sends triggers at the given times, which must not descend, until there are no more, or
    /// `count` triggers are sent. Cancel safety: as of [`run`](Self::run).
    ///
    /// # Errors
    /// The same errors as [`run`](Self::run).
    pub async fn follow(
        &mut self,
        times: impl Iterator<Item = Instant>,
        count: Option<u64>,
    ) -> io::Result<()> {
        let mut timer = Timer::new()?;
        let mut times = times.peekable();
        let end = count.map(|count| self.sent + count);
        while let Some(due) = times.peek().copied() {
            timer.arm(Some(due));
            timer.expired().await;
            let now = clock::now();
            let left = end.map_or(u64::MAX, |end| end - self.sent);
            let mut due_count = 0;
            // All triggers whose time has come are sent together, up to 1024 of them.
            while due_count < left && due_count < 1024 && times.next_if(|due| *due <= now).is_some() {
                due_count += 1;
            }
            self.tell(due_count).await?;
            self.largest_delay = self.largest_delay.max(clock::now().since(due));
            if end == Some(self.sent) {
                break;
            }
        }
        Ok(())
    }

    /// Sends triggers at equal intervals for the given duration.
    ///
    /// # Errors
    /// The same errors as [`run`](Self::run).
    pub async fn periodic(&mut self, rate: Frequency, duration: Duration) -> io::Result<()> {
        let count = (rate.hertz() * duration.as_secs_f64()).round() as u64;
        self.run(TriggerKind::Periodic { rate }, 1, Some(count)).await
    }
}

/// Counts a refusal, or returns it as an error if the feed stops when it is refused.
fn refused(before: u64, stops: bool, error: io::Error) -> io::Result<u64> {
    if stops { Err(error) } else { Ok(before + 1) }
}
