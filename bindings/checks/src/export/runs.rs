//! The runs that are exported: two that `evbd` builds, and a single file, beyond 4 GiB
//! unless the test is quick.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use evb_core::{
    event::{Cause, Event, MissingSource},
    fragment::{RunningChecksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};
use evb_file::{EventFileWriter, FileIdentity, FsyncPolicy, Merge, Selection, WriterOptions};
use lab_base::commands::run as execute;

use super::tools::Tools;

/// Size of a fragment of the large runs, in bytes.
const FRAGMENT: u64 = 16_000;
/// Sources of the large runs.
const SOURCES: u16 = 4;

/// Event files of a run, and what is in them.
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) folder: PathBuf,
    pub(super) listing: Listing,
}

/// The events of a run as the Rust reader lists them.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) events: u64,
    pub(super) fragments: u64,
    pub(super) bytes: u64,
    /// The checksum of all numbers of all fragments, in the order of events; see `content.py`.
    pub(super) digest: u64,
    /// The checksums of the missing and of the absent sources.
    pub(super) missing: u64,
    pub(super) absent: u64,
}

impl Run {
    /// Replays KM3NeT timeslices into events.
    pub(super) fn km3net(tools: &Tools, folder: &Path, events: u64) -> Result<Self> {
        let input = checkout::root().join("examples/data/km3net_l1_timeslices.dat");
        let input = format!(
            "{{ kind = \"replay\", path = \"{}\", format = \"km3net\", module = \"{{id-1}}\" }}",
            input.display()
        );
        Self::by_evbd(tools, folder, "km3net", &input, 15, events)
    }

    /// Builds events of generated payloads.
    pub(super) fn large(tools: &Tools, folder: &Path, bytes: u64) -> Result<Self> {
        let input = format!("{{ kind = \"generator\", size = \"{FRAGMENT} B\" }}");
        let events = bytes / (FRAGMENT * u64::from(SOURCES));
        Self::by_evbd(tools, folder, "large", &input, SOURCES, events)
    }

    /// Lets evbd build a run with two builders, so that an export has several files to merge.
    fn by_evbd(
        tools: &Tools,
        folder: &Path,
        name: &'static str,
        input: &str,
        sources: u16,
        events: u64,
    ) -> Result<Self> {
        let files = folder.join(name);
        let [supervisor, one, other] = free_ports()?;
        let builder = |id: u16, port: u16| {
            format!(
                "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\n\
                 sink = {{ kind = \"file\", path = \"{}\", rotate = \"400 MB\" }}\n",
                files.display()
            )
        };
        let config = format!(
            "[run]\nevents = {events}\n\
             [supervisor]\nlisten = \"127.0.0.1:{supervisor}\"\ntrigger = \"as-fast-as-possible\"\n\
             [shaping]\nmode = \"credit\"\n\
             [[source]]\nids = \"1-{sources}\"\nbind = \"127.0.0.1\"\nmax_fragment = \"64 KiB\"\ninput = {input}\n{}{}",
            builder(1, one),
            builder(2, other)
        );
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, config)?;
        execute(Command::new(&tools.evbd).args(["run", "--quiet"]).arg(&path))?;
        Self::of(name, files)
    }

    /// Writes one file of this payload, whose events lack a source now and then. Source 4 owes them
    /// a fragment then, and source 3 does not.
    pub(super) fn single(folder: &Path, bytes: u64) -> Result<Self> {
        const SIZE: usize = 64_000;
        let files = folder.join("single");
        let (run, epoch, builder) = (RunNumber::new(3), Epoch::new(1), BuilderId::new(1));
        let identity = FileIdentity {
            run,
            epoch,
            builder,
            sources: (1..=SOURCES).map(SourceId::new).collect(),
            ..FileIdentity::default()
        };
        let options =
            WriterOptions { rotate_at: Bytes::MAX, fsync: FsyncPolicy::None, ..WriterOptions::default() };
        let mut writer = EventFileWriter::create(&files, identity, options)?;
        let payload: Vec<u8> = (0..2 * SIZE).map(|byte| (byte * 31 % 65_521) as u8).collect();
        for id in 1..=bytes / (SIZE as u64 * u64::from(SOURCES)) {
            let mut event = Event::empty(EventId::new(id), run, epoch, builder);
            for source in 1..=SOURCES {
                if source == SOURCES && id % 100 == 0 {
                    event.missing.push(MissingSource::new(SourceId::new(source), Cause::Unknown));
                    continue;
                }
                if source == SOURCES - 1 && id % 70 == 0 {
                    event.absent.push(MissingSource::new(SourceId::new(source), Cause::Excluded));
                    continue;
                }
                let begin = (id * 7 + u64::from(source) * 1009) as usize % SIZE;
                event.add(
                    SourceId::new(source),
                    Timestamp::new(id),
                    payload[begin..begin + SIZE].to_vec().into(),
                );
            }
            writer.append(&event)?;
        }
        writer.close()?;
        Self::of("single", files)
    }

    fn of(name: &'static str, folder: PathBuf) -> Result<Self> {
        let listing = Listing::of(&folder)?;
        println!(
            "{name}: {} events, {} fragments, {} MB of payload",
            listing.events,
            listing.fragments,
            listing.bytes / 1_000_000
        );
        Ok(Self { name, folder, listing })
    }
}

impl Listing {
    fn of(folder: &Path) -> Result<Self> {
        let mut merge = Merge::open(&[folder.to_owned()], &Selection::default())?;
        let (mut listing, mut memory) = (Self::default(), Vec::new());
        let mut digest = RunningChecksum::default();
        let (mut missing, mut absent) = (RunningChecksum::default(), RunningChecksum::default());
        while let Some(record) = merge.next_into(&mut memory)? {
            memory.clear();
            let event = record.event.number();
            listing.events += 1;
            for fragment in &record.fragments {
                listing.fragments += 1;
                listing.bytes += u64::from(fragment.length);
                for number in [
                    event,
                    fragment.source.number().into(),
                    fragment.timestamp.ticks(),
                    fragment.length.into(),
                    fragment.checksum.number(),
                ] {
                    digest.update(&number.to_le_bytes());
                }
            }
            for (list, digest) in [(&record.missing, &mut missing), (&record.absent, &mut absent)] {
                for lacking in list {
                    digest.update(&event.to_le_bytes());
                    digest.update(&u64::from(lacking.source.number()).to_le_bytes());
                }
            }
        }
        listing.digest = digest.take().number();
        (listing.missing, listing.absent) = (missing.take().number(), absent.take().number());
        Ok(listing)
    }
}

/// Returns ports on which nothing listens.
fn free_ports() -> Result<[u16; 3]> {
    let listener = || TcpListener::bind("127.0.0.1:0").context("no free port");
    let listeners = [listener()?, listener()?, listener()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
