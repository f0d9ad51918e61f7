use crate::barrier::{Barrier, unix_ns};
use crate::payload::{Header, STAMP_LENGTH, stamp};
use crate::role::{BuilderArguments, BuilderReport};
use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// Largest number of bytes that a builder reads from a socket at once.
const READ: usize = 256 * 1024;
const HEAD: usize = Header::LENGTH + STAMP_LENGTH;

/// Runs one builder of the plain program until all sources have ended.
pub fn build(arguments: &BuilderArguments) -> Result<()> {
    arguments.check()?;
    let barrier = Barrier { launched: arguments.launched };
    let listener =
        TcpListener::bind(&arguments.bind).with_context(|| format!("cannot bind {}", arguments.bind))?;
    barrier.listening(&listener.local_addr()?.to_string())?;
    let mut connections = Vec::new();
    for _ in 0..arguments.sources {
        let connection = accept(&listener, arguments)?;
        let known = connections.iter().any(|(_, other): &(_, Progress)| other.source == connection.1.source);
        ensure!(!known, "source {} came twice", connection.1.source);
        connections.push(connection);
    }
    let window = barrier.ready(&arguments.work)?;
    let mut report = BuilderReport { builder: arguments.id, ..BuilderReport::default() };
    let mut before = 0;
    let mut memory = vec![0; READ];
    let mut open: Vec<usize> = (0..connections.len()).collect();
    while !open.is_empty() {
        for index in wait(&connections, &open)? {
            let (stream, progress) = &mut connections[index];
            match stream.read(&mut memory) {
                Ok(0) => {
                    progress.finish()?;
                    open.retain(|other| *other != index);
                }
                Ok(length) => progress.take(&memory[..length])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context(format!("reading from source {}", progress.source)),
            }
        }
        // A source's fragments arrive in order, so an event is complete when its fragment from the
        // slowest source has arrived.
        let complete = connections.iter().map(|(_, progress)| progress.fragments).min().unwrap_or(0);
        if complete > report.complete {
            report.complete = complete;
            report.last_ns = unix_ns();
        }
        let now = Instant::now();
        if now < window.begin {
            before = report.complete;
        }
        if now <= window.end {
            report.complete_in_window = report.complete - before;
        }
    }
    let furthest = connections.iter().map(|(_, progress)| progress.fragments).max().unwrap_or(0);
    report.incomplete = furthest - report.complete;
    barrier.report(&report)
}

fn accept(listener: &TcpListener, arguments: &BuilderArguments) -> Result<(TcpStream, Progress)> {
    let (mut stream, from) = listener.accept()?;
    let mut hello = [0; Header::LENGTH];
    stream.read_exact(&mut hello).with_context(|| format!("no hello from {from}"))?;
    let Some(hello) = Header::decode(&hello).filter(|hello| hello.event == 0) else {
        bail!("{from} does not begin with a hello");
    };
    ensure!((1..=arguments.sources).contains(&hello.source), "{from} calls itself source {}", hello.source);
    let size = arguments.work.size;
    ensure!(hello.length as usize == size, "{from} sends {} bytes, not {size}", hello.length);
    stream.set_nonblocking(arguments.sources > 1)?;
    let (first, step) = (u64::from(arguments.id), u64::from(arguments.builders));
    Ok((stream, Progress::new(hello.source, size, first, step)))
}

/// Returns the connections that have data to read. A single connection is not polled, because its
/// socket is in blocking mode.
fn wait(connections: &[(TcpStream, Progress)], open: &[usize]) -> Result<Vec<usize>> {
    if connections.len() == 1 {
        return Ok(open.to_vec());
    }
    let mut polled: Vec<_> =
        open.iter().map(|index| PollFd::new(&connections[*index].0, PollFlags::IN)).collect();
    poll(&mut polled, None)?;
    let ready = open.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
    Ok(ready.map(|(index, _)| *index).collect())
}

/// Progress of reading the byte stream of one source.
#[derive(Debug)]
pub struct Progress {
    source: u32,
    size: usize,
    next_event: u64,
    step: u64,
    head: [u8; HEAD],
    head_length: usize,
    body_left: usize,
    fragments: u64,
}

impl Progress {
    /// Creates the state before the first byte of the stream; events are expected from `first` on,
    /// in steps of `step`.
    pub fn new(source: u32, size: usize, first: u64, step: u64) -> Self {
        let head = [0; HEAD];
        Self { source, size, next_event: first, step, head, head_length: 0, body_left: 0, fragments: 0 }
    }

    /// Takes the next bytes of the stream and checks every header and stamp in them.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let body = self.body_left.min(bytes.len());
                self.body_left -= body;
                bytes = &bytes[body..];
            } else {
                let part = (HEAD - self.head_length).min(bytes.len());
                self.head[self.head_length..self.head_length + part].copy_from_slice(&bytes[..part]);
                self.head_length += part;
                bytes = &bytes[part..];
                if self.head_length < HEAD {
                    return Ok(());
                }
                self.check_head()?;
                self.head_length = 0;
                self.body_left = self.size - STAMP_LENGTH;
            }
            if self.body_left == 0 {
                self.fragments += 1;
                self.next_event += self.step;
            }
        }
        Ok(())
    }

    /// Returns the number of complete fragments.
    #[cfg(test)]
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    fn check_head(&self) -> Result<()> {
        let due = Header { event: self.next_event, source: self.source, length: self.size as u32 };
        let came = Header::decode(&self.head);
        ensure!(came == Some(due), "source {} sent {came:?} where {due:?} was due", self.source);
        let good = self.head[Header::LENGTH..] == stamp(self.source, self.next_event, self.size);
        ensure!(good, "source {}, event {}: wrong stamp", self.source, self.next_event);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        let whole = self.body_left == 0 && self.head_length == 0;
        ensure!(whole, "source {} ended within event {}", self.source, self.next_event);
        Ok(())
    }
}
