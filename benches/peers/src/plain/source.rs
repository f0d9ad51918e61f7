use crate::barrier::Barrier;
use crate::payload::{Header, STAMP_LENGTH, Template, stamp};
use crate::role::{SourceArguments, SourceReport, Triggers};
use anyhow::{Context, Result};
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Largest number of bytes that a batch of small fragments for one builder may have; a batch is
/// written at once.
const BATCH: usize = 64 * 1024;

/// Number of large fragments that are in memory at once, as in the ring buffer that a readout card
/// writes into.
const RING: usize = 64;

/// Time for which a source tries to connect to a builder.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs one source of the plain program until it has sent its last event.
pub fn send(arguments: &SourceArguments) -> Result<()> {
    arguments.work.check()?;
    let barrier = Barrier { launched: arguments.launched };
    let mut lanes = arguments.connect.iter().map(|to| Lane::connect(to)).collect::<Result<Vec<_>>>()?;
    let (source, size) = (arguments.id, arguments.work.size);
    for lane in &mut lanes {
        lane.stream.write_all(&Header { event: 0, source, length: size as u32 }.encode())?;
    }
    let template = Template::new();
    let mut triggers = Triggers::new(arguments, barrier, barrier.ready(&arguments.work)?);
    let mut ring = Ring::new(&template, source, size);
    while let Some((event, _)) = triggers.next(|| lanes.iter_mut().try_for_each(Lane::flush))? {
        let to = ((event - 1) % lanes.len() as u64) as usize;
        let header = Header { event, source, length: size as u32 }.encode();
        if Header::LENGTH + size >= BATCH {
            lanes[to].stream.write_all(ring.fragment(header, source, event))?;
        } else {
            lanes[to].make_room(Header::LENGTH + size)?;
            lanes[to].batch.extend_from_slice(&header);
            template.append(&mut lanes[to].batch, source, event, size);
        }
    }
    lanes.iter_mut().try_for_each(Lane::flush)?;
    barrier.report(&SourceReport { source, events: triggers.events() })
}

/// A ring of large fragments whose payload is generated only once; for each event the next fragment
/// gets a new header and stamp.
struct Ring(Vec<Vec<u8>>);

impl Ring {
    fn new(template: &Template, source: u32, size: usize) -> Self {
        let fragment = |event| {
            let mut fragment = vec![0; Header::LENGTH];
            template.append(&mut fragment, source, event, size);
            fragment
        };
        let is_used = Header::LENGTH + size >= BATCH;
        Self((0..RING as u64).filter(|_| is_used).map(fragment).collect())
    }

    fn fragment(&mut self, header: [u8; Header::LENGTH], source: u32, event: u64) -> &[u8] {
        let place = event as usize % RING;
        let fragment = &mut self.0[place];
        let size = fragment.len() - Header::LENGTH;
        fragment[..Header::LENGTH].copy_from_slice(&header);
        fragment[Header::LENGTH..][..STAMP_LENGTH].copy_from_slice(&stamp(source, event, size));
        fragment
    }
}

/// The connection to one builder, and the batch of fragments that waits to be written to it.
struct Lane {
    stream: TcpStream,
    batch: Vec<u8>,
}

impl Lane {
    fn connect(to: &str) -> Result<Self> {
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(to) {
                Ok(stream) => break stream,
                Err(_) if begun.elapsed() < CONNECT_TIMEOUT => thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(error).with_context(|| format!("no builder at {to}")),
            }
        };
        stream.set_nodelay(true)?;
        Ok(Self { stream, batch: Vec::with_capacity(BATCH) })
    }

    fn make_room(&mut self, length: usize) -> Result<()> {
        if self.batch.len() + length > BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}
