//! The sending end, which writes records as fast as the socket takes them.

use std::{
    io::{self, Write as _},
    net::UdpSocket,
    thread,
    time::{Duration, Instant},
};

use evb_core::units::Bytes;
use socket2::SockRef;

use super::{
    StreamArguments,
    plan::Case,
    wire::{self, Counted, Order, Ready, Sent},
};
use crate::{
    ends::{Dialogue, PATIENCE, SocketWishes, Transport, granted, tcp_connect, udp_socket},
    output::BenchError,
};

/// Time for which the sender goes on after the warm-up and the window, so that the window ends
/// before the data do.
const MARGIN: Duration = Duration::from_millis(50);
/// Error of the kernel if the queue of a device is full (Linux, asm-generic/errno.h).
const ENOBUFS: i32 = 105;
/// Pause after the kernel had no room for a datagram.
const RETRY: Duration = Duration::from_micros(50);

/// The counts of a run at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) counted: Counted,
    /// Number of records that the kernel took from the sender.
    pub(super) sent: u64,
    /// Buffer of the sending socket as granted.
    pub(super) send_buffer: Bytes,
    /// Buffer of the receiving socket as granted.
    pub(super) receive_buffer: Bytes,
    /// Largest TCP payload of a packet, as the kernel states it for the connection.
    pub(super) mss: Option<u32>,
}

impl Run {
    /// Returns the rate of the payload in the window; zero if nothing arrived.
    pub(super) fn bits_per_s(&self) -> f64 {
        match self.counted.nanos {
            0 => 0.0,
            nanos => self.counted.bytes as f64 * 8e9 / nanos as f64,
        }
    }
}

/// The sending end of all runs.
#[derive(Debug)]
pub(super) struct Sender {
    dialogue: Dialogue,
    warm_up: Duration,
    window: Duration,
    runs: u64,
}

impl Sender {
    pub(super) fn new(dialogue: Dialogue, arguments: &StreamArguments) -> Self {
        let window = Duration::from_secs_f64(arguments.seconds);
        // The number of the first run differs between measurements, so that late datagrams of an
        // earlier measurement are not counted.
        let runs = u64::from(std::process::id()) << 32;
        Self { dialogue, warm_up: arguments.warm_up, window, runs }
    }

    /// Measures a case once.
    pub(super) fn run(&mut self, case: &Case) -> Result<Run, BenchError> {
        let far = || BenchError::system("the receiving end did not serve a run");
        self.runs += 1;
        let order = Order {
            run: self.runs,
            transport: case.transport,
            warm_up_ms: self.warm_up.as_millis() as u64,
            window_ms: self.window.as_millis() as u64,
            wishes: case.wishes(),
        };
        self.dialogue.say(&order).map_err(far())?;
        let ready: Ready = self.dialogue.must_hear(PATIENCE).map_err(far())?;
        let sending = match case.transport {
            Transport::Tcp => self.stream(case, ready.port),
            Transport::Udp => self.datagrams(case, ready.port, order.wishes),
        };
        let (sent, send_buffer, mss) = sending.map_err(BenchError::system(format!("sending {case}")))?;
        self.dialogue.say(&Sent { records: sent }).map_err(far())?;
        let counted: Counted = self.dialogue.must_hear(PATIENCE).map_err(far())?;
        Ok(Run { counted, sent, send_buffer, receive_buffer: Bytes::new(ready.receive_buffer), mss })
    }

    fn duration(&self) -> Duration {
        self.warm_up + self.window + MARGIN
    }

    fn stream(&self, case: &Case, port: u16) -> io::Result<(u64, Bytes, Option<u32>)> {
        let (local, to) = (self.dialogue.local(), self.dialogue.peer_at(port));
        let mut stream = tcp_connect(local, to, case.wishes(), PATIENCE)?;
        stream.set_nodelay(case.nodelay.unwrap_or(true))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (buffer, mss) = (granted(&stream)?.0, SockRef::from(&stream).tcp_mss().ok());
        let record = vec![0x5a; case.record.as_usize()];
        let end = Instant::now() + self.duration();
        let mut records = 0;
        while Instant::now() < end {
            stream.write_all(&record)?;
            records += 1;
        }
        Ok((records, buffer, mss))
    }

    fn datagrams(
        &self,
        case: &Case,
        port: u16,
        wishes: SocketWishes,
    ) -> io::Result<(u64, Bytes, Option<u32>)> {
        let socket = udp_socket(self.dialogue.local(), wishes)?;
        socket.connect(self.dialogue.peer_at(port))?;
        let buffer = granted(&socket)?.0;
        let mut record = vec![0x5a; case.record.as_usize().max(wire::LABEL)];
        record[..wire::LABEL].copy_from_slice(&wire::label(self.runs));
        let end = Instant::now() + self.duration();
        let mut records = 0;
        while Instant::now() < end {
            records += u64::from(send(&socket, &record)?);
        }
        Ok((records, buffer, None))
    }
}

/// Sends a datagram; returns false if the kernel had no room for it.
fn send(socket: &UdpSocket, record: &[u8]) -> io::Result<bool> {
    match socket.send(record) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
            thread::sleep(RETRY);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
