//! Measures the speed of writing events to disk, reading them back, and verifying them: `cargo run
//! --release -p evb-file --example write_speed -- [DIRECTORY]`.

use std::{env, error::Error, hint::black_box, path::PathBuf, time::Instant};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
};
use evb_file::{
    EventFile, EventFileWriter, FileIdentity, VerifyOptions, WriterOptions, existing_files, verify,
};

const SOURCES: u16 = 4;
const VOLUME: usize = 1 << 30;
const BATCH: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let base = env::args_os().nth(1).map_or_else(env::temp_dir, PathBuf::from);
    println!("{SOURCES} sources, 1 GiB of payload in {}", base.display());
    println!(
        "{:>10} {:>14} {:>10} {:>11} {:>11}",
        "fragment B", "written ev/s", "MB/s", "read MB/s", "verify MB/s"
    );
    for fragment in [16, 256, 1_000, 16_000, 64_000, 1_000_000] {
        measure(&base, fragment)?;
    }
    Ok(())
}

fn measure(base: &std::path::Path, fragment: usize) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in(base)?;
    let (run, epoch, builder) = (RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
    let sources: Vec<SourceId> = (1..=SOURCES).map(SourceId::new).collect();
    let identity = FileIdentity { run, epoch, builder, sources: sources.clone(), ..FileIdentity::default() };
    let events = (VOLUME / fragment / usize::from(SOURCES)).min(4_000_000) as u64;
    let payload = bytes::Bytes::from(vec![7; fragment]);
    let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
    for source in sources {
        event.add(source, Timestamp::default(), payload.clone());
    }

    let start = Instant::now();
    let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
    for id in 1..=events {
        event.id = EventId::new(id);
        writer.append(&event)?;
        if id % BATCH == 0 {
            writer.commit()?;
        }
    }
    writer.close()?;
    let written = start.elapsed().as_secs_f64();

    let start = Instant::now();
    for path in existing_files(dir.path(), run)? {
        for event in EventFile::open(path)?.events() {
            black_box(event?);
        }
    }
    let read = start.elapsed().as_secs_f64();

    let start = Instant::now();
    let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
    assert!(report.is_clean(), "{report}");
    let verified = start.elapsed().as_secs_f64();
    let megabytes = events as f64 * event.payload_size().count() as f64 / 1e6;
    println!(
        "{fragment:>10} {:>14.0} {:>10.0} {:>11.0} {:>11.0}",
        events as f64 / written,
        megabytes / written,
        megabytes / read,
        megabytes / verified
    );
    Ok(())
}
