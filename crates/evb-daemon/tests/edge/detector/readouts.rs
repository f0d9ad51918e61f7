//! The readouts of a detector: front ends in this process or in Python, and sources of the library.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    iter,
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use evb::{
    prelude::*,
    source::{DetectorClock, TriggerCounter},
};
use evb_needs::{granted, programs};

use super::{Layout, MAX_FRAGMENT, Ports};
use crate::front_end::{FrontEnd, Stream};

/// A program with front ends. Its arguments are sources and ports, and it reads what boards send.
const PROGRAM: &str = include_str!("../front_ends.py");
/// Length of the header of a fragment.
const HEADER: usize = 20;

/// A way from a board to its source.
#[derive(Clone, Debug)]
pub(crate) enum Readout {
    /// A front end of this process, at a Unix socket.
    Unix,
    /// A front end in Python, at a TCP port; one of this process where there is no Python.
    Tcp,
    /// A source in this process, which declares its clock and its counter.
    Library(Option<DetectorClock>, Option<TriggerCounter>),
}

impl Readout {
    pub(super) fn is_library(&self) -> bool {
        matches!(self, Self::Library(..))
    }
}

/// The readouts of a detector.
pub(super) struct Readouts {
    readouts: Vec<Readout>,
    folder: PathBuf,
    ports: Vec<u16>,
    /// The program with front ends, and the sources that it serves.
    python: Option<(Child, Pipe, Vec<u16>)>,
    library: BTreeMap<u16, Source>,
}

/// The standard input of the program with front ends.
type Pipe = Arc<Mutex<ChildStdin>>;

impl Readouts {
    /// Starts the front ends in Python, and registers the sources of the library.
    pub(super) fn start(layout: &Layout, folder: &Path, ports: &Ports) -> Self {
        let of_kind = |is: fn(&Readout) -> bool| (1..).zip(&layout.readouts).filter(move |(_, one)| is(one));
        let tcp: Vec<u16> = of_kind(|one| matches!(one, Readout::Tcp)).map(|(source, _)| source).collect();
        let has_python = || granted(programs(&["python3"])).is_some();
        let python = (!tcp.is_empty() && has_python()).then(|| {
            let log = fs::File::options().append(true).open(folder.join("log")).unwrap();
            let mut command = Command::new("python3");
            let place = |source: &u16| format!("{source}:{}", ports.front_ends[usize::from(*source) - 1]);
            command.args(["-c", PROGRAM]).args(tcp.iter().map(place)).stdin(Stdio::piped()).stderr(log);
            let mut child = command.spawn().unwrap();
            let pipe = Arc::new(Mutex::new(child.stdin.take().unwrap()));
            (child, pipe, tcp)
        });
        let supervisor = format!("127.0.0.1:{}", ports.supervisor);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let library = of_kind(Readout::is_library).map(|(source, readout)| {
            let mut config = SourceConfig::new(SourceId::new(source), &supervisor);
            config.max_fragment = MAX_FRAGMENT;
            if let Readout::Library(clock, counter) = readout {
                (config.clock, config.counter) = (*clock, *counter);
            }
            (source, runtime.block_on(Source::connect(config)).unwrap())
        });
        Self {
            library: library.collect(),
            readouts: layout.readouts.clone(),
            folder: folder.to_owned(),
            ports: ports.front_ends.clone(),
            python,
        }
    }

    /// Returns the sources whose front ends connect before the run.
    pub(super) fn connected(&self) -> Vec<u16> {
        self.python.as_ref().map_or_else(Vec::new, |(.., sources)| sources.clone())
    }

    /// Returns a connection of a board; `None` if its source does not listen.
    pub(super) fn connect(&self, source: u16) -> Option<Way> {
        let place = usize::from(source) - 1;
        let stream = match self.readouts.get(place).unwrap_or(&Readout::Unix) {
            Readout::Unix => {
                Stream::Unix(UnixStream::connect(self.folder.join(format!("{source}.sock"))).ok()?)
            }
            Readout::Tcp => match &self.python {
                Some((_, pipe, _)) => return Some(Way::Python(pipe.clone(), source)),
                None => Stream::Tcp(TcpStream::connect(("127.0.0.1", self.ports[place])).ok()?),
            },
            Readout::Library(..) => return Some(Way::Library(self.library[&source].blocking())),
        };
        Some(Way::Socket(FrontEnd::new(stream, source)))
    }
}

impl Drop for Readouts {
    fn drop(&mut self) {
        if let Some((python, ..)) = &mut self.python {
            // An error means that it has ended already.
            let _ = python.kill();
            let _ = python.wait();
        }
        self.library.values().for_each(Source::abort);
    }
}

/// The connection of a board to its source.
pub(super) enum Way {
    Socket(FrontEnd),
    Python(Pipe, u16),
    Library(BlockingSource),
}

impl Way {
    /// Sends fragments; returns false if the connection is closed.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Socket(front_end) => front_end.try_send(bytes),
            Self::Python(pipe, source) => {
                let told = |one: &[u8]| [&source.to_le_bytes()[..], one].concat();
                let all: Vec<u8> = fragments(bytes).flat_map(told).collect();
                pipe.lock().unwrap().write_all(&all).is_ok()
            }
            Self::Library(source) => fragments(bytes).all(|one| source.push(read(one)).is_ok()),
        }
    }
}

/// Returns the fragments of which these bytes consist.
fn fragments(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        let length = u32::from_le_bytes(bytes.get(..4)?.try_into().unwrap()) as usize;
        let (first, rest) = bytes.split_at(HEADER + length);
        bytes = rest;
        Some(first)
    })
}

/// Returns a fragment as the library takes it.
fn read(bytes: &[u8]) -> Fragment {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let payload = Bytes::copy_from_slice(&bytes[HEADER..]);
    Fragment::new(EventId::new(number(4)), Timestamp::new(number(12)), payload)
}
