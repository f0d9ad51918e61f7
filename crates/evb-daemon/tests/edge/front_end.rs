//! The front ends of the tests, which speak protocol 1 or 2.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
};

use crate::system::{EVENTS, fragment};

const MARK: [u8; 4] = [0xff; 4];

/// A message of evb to a front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Started { number: u32, run: [u8; 16], first: u64 },
    Stopped { run: [u8; 16] },
    Accepted { run: [u8; 16], fragments: u64 },
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn shutdown(&self) {
        // The connection may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

/// The connection of a front end.
#[derive(Debug)]
pub(crate) struct FrontEnd {
    stream: Stream,
    source: u16,
}

impl FrontEnd {
    pub(crate) fn new(stream: Stream, source: u16) -> Self {
        Self { stream, source }
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes; returns false if evb has closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends all fragments of a run.
    pub(crate) fn send_run(&mut self, run: u64) {
        (1..=EVENTS).for_each(|event| self.stream.write_all(&fragment(self.source, run, event)).unwrap());
    }

    /// Sends the preamble of protocol 2.
    pub(crate) fn greet(&mut self, name: &str, flags: u8) {
        let mut bytes = [&MARK[..], &[2, name.len() as u8, flags]].concat();
        bytes.resize(20, 0);
        self.send(&[&bytes, name.as_bytes()].concat());
    }

    /// States the run of the following fragments.
    pub(crate) fn state(&mut self, run: [u8; 16]) {
        assert!(self.try_state(run));
    }

    /// States the run of the following fragments, unless evb has closed the connection.
    pub(crate) fn try_state(&mut self, run: [u8; 16]) -> bool {
        self.try_send(&[&MARK[..], &run].concat())
    }

    /// Reads the next message; `None` at the end of the connection.
    pub(crate) fn message(&mut self) -> Option<Message> {
        let mut bytes = [0; 32];
        self.stream.read_exact(&mut bytes).ok()?;
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let run = bytes[8..24].try_into().unwrap();
        let value = u64::from_le_bytes(bytes[24..].try_into().unwrap());
        Some(match number(0) {
            1 => Message::Started { number: number(4), run, first: value },
            2 => Message::Stopped { run },
            3 => Message::Accepted { run, fragments: value },
            other => panic!("message {other}"),
        })
    }

    /// Waits for the start of a run; returns its id.
    pub(crate) fn wait_for_start(&mut self) -> [u8; 16] {
        match self.message() {
            Some(Message::Started { run, .. }) => run,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the sending side; returns all further messages.
    pub(crate) fn finish(mut self) -> Vec<Message> {
        self.stream.shutdown();
        std::iter::from_fn(|| self.message()).collect()
    }
}
