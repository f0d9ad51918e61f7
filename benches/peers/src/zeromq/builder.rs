use super::{END, HELLO, Header, socket};
use crate::barrier::{Barrier, Window, unix_ns};
use crate::payload::{STAMP_LENGTH, stamp};
use crate::role::{BuilderArguments, BuilderReport};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

/// Time without messages, after the measuring window, after which a builder considers the sources
/// that have not ended dead.
const SILENCE_MS: i32 = 10_000;

/// Runs one builder of the ZeroMQ program until all sources have ended or fallen silent.
pub fn build(arguments: &BuilderArguments) -> Result<()> {
    arguments.check()?;
    let barrier = Barrier { launched: arguments.launched };
    let context = zmq::Context::new();
    let puller = socket(&context, zmq::PULL, &arguments.work)?;
    let bind = arguments.bind.strip_suffix(":0").map_or(arguments.bind.clone(), |host| format!("{host}:*"));
    puller.bind(&format!("tcp://{bind}")).with_context(|| format!("cannot bind {}", arguments.bind))?;
    let endpoint = puller.get_last_endpoint()?.map_err(|_| anyhow!("the endpoint is not text"))?;
    barrier.listening(endpoint.trim_start_matches("tcp://"))?;

    let mut table = Table::new(arguments);
    let mut greeted = 0;
    while greeted < arguments.sources {
        let mut message = zmq::Message::new();
        puller.recv(&mut message, 0)?;
        match Header::decode(&message) {
            Some(header) if header.event == HELLO => greeted += 1,
            // Sources that were started by hand do not wait for each other, so fragments can arrive
            // before the last hello.
            _ => table.take(message)?,
        }
    }
    let window = barrier.ready(&arguments.work)?;
    puller.set_rcvtimeo(SILENCE_MS)?;
    table.window = Some(window);
    while table.ended < arguments.sources {
        let mut message = zmq::Message::new();
        match puller.recv(&mut message, 0) {
            Ok(()) => table.take(message)?,
            Err(zmq::Error::EAGAIN) if Instant::now() < window.end => {}
            Err(zmq::Error::EAGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    table.report.incomplete = table.open.len() as u64;
    barrier.report(&table.report)
}

/// The open events: the fragments of an event are kept until its last fragment arrives.
pub struct Table {
    sources: u32,
    size: usize,
    limit: usize,
    open: HashMap<u64, OpenEvent, BuildHasherDefault<EventIdHasher>>,
    spare: Vec<Vec<zmq::Message>>,
    held: usize,
    /// Number of sources that have sent their last message.
    pub ended: u32,
    /// The measuring window; events completed outside of it do not count for the rate.
    pub window: Option<Window>,
    /// Report that the builder writes at the end of the run.
    pub report: BuilderReport,
}

#[derive(Default)]
struct OpenEvent {
    fragments: Vec<zmq::Message>,
    sources: u64,
    trigger_ns: u64,
}

impl Table {
    /// Creates a table without open events.
    pub fn new(arguments: &BuilderArguments) -> Self {
        Self {
            sources: arguments.sources,
            size: arguments.work.size,
            limit: arguments.work.table_bytes,
            open: HashMap::default(),
            spare: Vec::new(),
            held: 0,
            ended: 0,
            window: None,
            report: BuilderReport { builder: arguments.id, ..BuilderReport::default() },
        }
    }

    /// Processes one message, which is a fragment or announces the end of a source.
    pub fn take(&mut self, message: zmq::Message) -> Result<()> {
        let Some(header) = Header::decode(&message) else {
            bail!("a message of {} bytes is no fragment", message.len());
        };
        if header.event == END {
            self.ended += 1;
            return Ok(());
        }
        self.check(&header, &message)?;
        let spare = &mut self.spare;
        let event = self.open.entry(header.event).or_insert_with(|| OpenEvent {
            fragments: spare.pop().unwrap_or_default(),
            sources: 0,
            trigger_ns: header.trigger_ns,
        });
        let bit = 1 << (header.source - 1);
        ensure!(event.sources & bit == 0, "source {} sent event {} twice", header.source, header.event);
        event.sources |= bit;
        event.trigger_ns = event.trigger_ns.min(header.trigger_ns);
        event.fragments.push(message);
        let whole = event.fragments.len() == self.sources as usize;
        self.held += self.size;
        ensure!(self.held <= self.limit, "open events hold more than --table-bytes {}", self.limit);
        self.report.max_open_events = self.report.max_open_events.max(self.open.len() as u64);
        if whole {
            self.complete(header.event);
        }
        Ok(())
    }

    fn check(&self, header: &Header, message: &[u8]) -> Result<()> {
        let known = (1..=self.sources).contains(&header.source);
        ensure!(known, "a fragment of source {}, which there is not", header.source);
        let (due, came) = (Header::LENGTH + self.size, message.len());
        ensure!(header.length as usize == self.size && came == due, "a message of {came} bytes, not {due}");
        let good = message[Header::LENGTH..Header::LENGTH + STAMP_LENGTH]
            == stamp(header.source, header.event, self.size);
        ensure!(good, "source {}, event {}: wrong stamp", header.source, header.event);
        Ok(())
    }

    fn complete(&mut self, id: u64) {
        let Some(mut event) = self.open.remove(&id) else { return };
        self.held -= event.fragments.len() * self.size;
        self.report.complete += 1;
        self.report.last_ns = unix_ns();
        let now = Instant::now();
        if self.window.is_some_and(|window| window.begin <= now && now <= window.end) {
            self.report.complete_in_window += 1;
            self.report.latencies.record(self.report.last_ns.saturating_sub(event.trigger_ns));
        }
        event.fragments.clear();
        self.spare.push(event.fragments);
    }
}

/// A hasher for event ids; these are consecutive numbers, which one multiplication distributes well
/// enough over a hash table.
#[derive(Default)]
pub struct EventIdHasher(u64);

impl Hasher for EventIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
