//! The end that requests, and keeps a number of requests outstanding.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, BufReader, Read as _, Write as _},
    net::UdpSocket,
    time::{Duration, Instant},
};

use evb_core::units::Bytes;

use super::{
    RequestArguments,
    wire::{self, Order, Over, REQUEST, Ready, Served},
};
use crate::{
    ends::{Dialogue, PATIENCE, SocketWishes, Transport, is_timeout, tcp_connect, udp_socket},
    output::BenchError,
    window::Window,
};

/// Size of the requesting socket's receive buffer over UDP, for several large responses; the kernel
/// may grant less.
const BUFFER: u32 = 4 * 1024 * 1024;

/// A point to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) transport: Transport,
    pub(super) outstanding: usize,
    pub(super) length: Bytes,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} outstanding, responses of {}", self.transport, self.outstanding, self.length)
    }
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Number of responses in the window.
    responses: u64,
    /// Length of the window.
    time: Duration,
    /// Sum of the times from request to response, of all responses of the run.
    round_trips: Duration,
    /// Number of responses of the run.
    answered: u64,
    /// Number of requests of the run.
    pub(super) requests: u64,
    /// Number of requests without a response in time.
    pub(super) lost: u64,
    /// Number of responses that came after their request had counted as lost.
    pub(super) late: u64,
}

impl Run {
    /// Returns the rate of responses per second; zero if fewer than two came.
    pub(super) fn per_s(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.responses as f64 / self.time.as_secs_f64() }
    }
}

/// Returns the mean time from a request to its response, over all responses of these runs; `None`
/// without a response.
pub(super) fn round_trip(runs: &[Run]) -> Option<Duration> {
    let answered: u64 = runs.iter().map(|run| run.answered).sum();
    let sum: Duration = runs.iter().map(|run| run.round_trips).sum();
    (answered > 0).then(|| sum.div_f64(answered as f64))
}

/// Outstanding requests, and the counts of a run in progress.
struct Course {
    run: u32,
    window: Window,
    end: Instant,
    outstanding: VecDeque<(u64, Instant)>,
    counts: Run,
}

impl Course {
    fn ask(&mut self) -> [u8; REQUEST] {
        let number = self.counts.requests;
        self.counts.requests += 1;
        self.outstanding.push_back((number, Instant::now()));
        wire::request(self.run, number)
    }

    /// Notes a response. Responses to requests that are not outstanding are late.
    fn answered(&mut self, number: u64, length: usize, now: Instant) {
        match self.outstanding.iter().position(|(other, _)| *other == number) {
            None => self.counts.late += 1,
            Some(place) => {
                if let Some((_, asked)) = self.outstanding.remove(place) {
                    self.counts.round_trips += now.duration_since(asked);
                    self.counts.answered += 1;
                }
                self.window.add(length, now);
            }
        }
    }

    /// Counts requests that are older than `timeout` as lost.
    fn expire(&mut self, timeout: Duration, now: Instant) {
        while self.outstanding.front().is_some_and(|(_, asked)| now.duration_since(*asked) >= timeout) {
            self.outstanding.pop_front();
            self.counts.lost += 1;
        }
    }

    fn counts(&self) -> Run {
        Run { responses: self.window.arrivals, time: self.window.time(), ..self.counts }
    }
}

/// The requesting end of all runs.
#[derive(Debug)]
pub(super) struct Client {
    dialogue: Dialogue,
    warm_up: Duration,
    length: Duration,
    timeout: Duration,
    runs: u32,
}

impl Client {
    pub(super) fn new(dialogue: Dialogue, arguments: &RequestArguments) -> Self {
        Self {
            dialogue,
            warm_up: arguments.warm_up,
            length: Duration::from_secs_f64(arguments.seconds),
            timeout: arguments.timeout,
            // The number of the first run differs between measurements.
            runs: std::process::id() << 16,
        }
    }

    /// Measures a case once.
    pub(super) fn run(&mut self, case: &Case) -> Result<Run, BenchError> {
        let far = || BenchError::system("the answering end did not serve a run");
        self.runs = self.runs.wrapping_add(1);
        let order = Order { run: self.runs, transport: case.transport, length: case.length.count() };
        self.dialogue.say(&order).map_err(far())?;
        let ready: Ready = self.dialogue.must_hear(PATIENCE).map_err(far())?;
        let done = match case.transport {
            Transport::Tcp => self.stream(case, ready.port),
            Transport::Udp => self.datagrams(case, ready.port),
        };
        let run = done.map_err(BenchError::system(case.to_string()))?;
        self.dialogue.say(&Over { requests: run.requests }).map_err(far())?;
        let _: Served = self.dialogue.must_hear(PATIENCE).map_err(far())?;
        Ok(run)
    }

    fn course(&self) -> Course {
        let counts = Run {
            responses: 0,
            time: Duration::ZERO,
            round_trips: Duration::ZERO,
            answered: 0,
            requests: 0,
            lost: 0,
            late: 0,
        };
        Course {
            run: self.runs,
            window: Window::new(self.warm_up, self.length),
            end: Instant::now() + self.warm_up + self.length,
            outstanding: VecDeque::new(),
            counts,
        }
    }

    fn stream(&self, case: &Case, port: u16) -> io::Result<Run> {
        let (local, to) = (self.dialogue.local(), self.dialogue.peer_at(port));
        let mut stream = tcp_connect(local, to, SocketWishes::default(), PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
        let mut response = vec![0; case.length.as_usize()];
        let mut course = self.course();
        while Instant::now() < course.end {
            while course.outstanding.len() < case.outstanding {
                stream.write_all(&course.ask())?;
            }
            reader.read_exact(&mut response)?;
            let expected = course.outstanding.front().map(|(number, _)| *number);
            match wire::number(&response, course.run).filter(|number| Some(*number) == expected) {
                Some(number) => course.answered(number, response.len(), Instant::now()),
                None => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the response is not that to the oldest request",
                    ));
                }
            }
        }
        Ok(course.counts())
    }

    fn datagrams(&self, case: &Case, port: u16) -> io::Result<Run> {
        let wishes = SocketWishes { buffer: Some(BUFFER), mss: None };
        let socket = udp_socket(self.dialogue.local(), wishes)?;
        socket.connect(self.dialogue.peer_at(port))?;
        socket.set_read_timeout(Some(self.timeout))?;
        let mut response = vec![0; case.length.as_usize() + 1];
        let mut course = self.course();
        while Instant::now() < course.end {
            while course.outstanding.len() < case.outstanding {
                socket.send(&course.ask())?;
            }
            receive(&socket, &mut response, &mut course, case.length.as_usize())?;
            course.expire(self.timeout, Instant::now());
        }
        Ok(course.counts())
    }
}

/// Waits for a response, but not longer than the socket's timeout.
fn receive(socket: &UdpSocket, response: &mut [u8], course: &mut Course, length: usize) -> io::Result<()> {
    match socket.recv(response) {
        Ok(received) => {
            let number = wire::number(&response[..received], course.run);
            if let Some(number) = number.filter(|_| received == length) {
                course.answered(number, received, Instant::now());
            }
            Ok(())
        }
        Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error),
    }
}
