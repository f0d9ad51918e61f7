//! A consumer that is killed again and again.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

use evb_core::rng::Rng;
use evb_file::EventStream;

/// The events that a consumer has kept, whichever of its processes took them.
#[derive(Default)]
pub(super) struct Taken {
    /// Record of each event.
    pub(super) records: BTreeMap<u64, Vec<u8>>,
    pub(super) repeats: u64,
    pub(super) kills: u32,
}

pub(super) struct Consumer(JoinHandle<Taken>);

impl Consumer {
    /// Starts a consumer that is killed that many times, at random moments: before it has read a
    /// whole record, before it answers, or within an answer.
    pub(super) fn start(listener: TcpListener, kills: u32) -> Self {
        Self(thread::spawn(move || {
            let (mut taken, mut chance) = (Taken::default(), Rng::new(7));
            while taken.kills < kills {
                let (stream, _) = listener.accept().unwrap();
                live(&stream, &mut taken, &mut chance);
                taken.kills += 1;
            }
            let (stream, _) = listener.accept().unwrap();
            taken.add(taken_from(&stream));
            taken
        }))
    }

    /// Returns what the consumer has taken when the run is over.
    pub(super) fn end(self) -> Taken {
        self.0.join().unwrap()
    }
}

impl Taken {
    fn add(&mut self, records: BTreeMap<u64, Vec<u8>>) {
        for (event, record) in records {
            if let Some(before) = self.records.insert(event, record) {
                self.repeats += 1;
                assert!(self.records[&event] == before, "the repeat of event {event} has other bytes");
            }
        }
    }
}

/// Takes some events, and dies.
fn live(stream: &TcpStream, taken: &mut Taken, chance: &mut Rng) {
    let (whole, death) = (chance.next_u64() % 20, chance.next_u64() % 3);
    let mut events = EventStream::new(stream, "a builder").unwrap();
    for _ in 0..whole {
        let event = events.next().expect("the run goes on").unwrap().event.number();
        taken.add([(event, events.bytes().to_vec())].into());
        let mut out = stream;
        out.write_all(&event.to_le_bytes()).unwrap();
    }
    if death == 0 {
        let _ = (&mut &*stream).read(&mut [0; 1000]);
        return;
    }
    // The event is kept, and no whole answer says so.
    let event = events.next().expect("the run goes on").unwrap().event.number();
    taken.add([(event, events.bytes().to_vec())].into());
    if death == 1 {
        let mut out = stream;
        let _ = out.write_all(&event.to_le_bytes()[..5]);
    }
}

/// Takes a stream to its end, and answers.
pub(super) fn taken_from<S>(stream: &S) -> BTreeMap<u64, Vec<u8>>
where
    for<'s> &'s S: Read + Write,
{
    let mut records = BTreeMap::new();
    let mut events = EventStream::new(stream, "a builder").unwrap();
    while let Some(record) = events.next().transpose().unwrap() {
        let event = record.event.number();
        records.insert(event, events.bytes().to_vec());
        let mut out = stream;
        out.write_all(&event.to_le_bytes()).unwrap();
    }
    assert!(events.is_closed(), "the stream was cut off");
    records
}
