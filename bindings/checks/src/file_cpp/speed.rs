//! The speed of the C++ reader, compared with that of `dd`, which reads the same file from memory
//! and does nothing with it.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context as _, Result, ensure};
use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};
use evb_file::{EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions};

use super::program::compile;

/// Number of measurements, of which the median counts.
const ROUNDS: usize = 9;
/// Fragment sizes, in bytes.
const SIZES: [usize; 3] = [1_000, 16_000, 1_000_000];

/// Writes a file for each fragment size, and prints the rates of `dd` and of the C++ reader.
pub(super) fn measure(folder: &Path, megabytes: u64) -> Result<()> {
    let program = folder.join("speed");
    let source = checkout::root().join("bindings/c/tests/file/speed.cpp");
    compile("g++", &["-std=c++17", "-O2"], &source, &program)?;
    println!(
        "{:>12} {:>10} {:>10} {:>10}   ratios of reader and dd",
        "fragment B", "dd GB/s", "read GB/s", "median"
    );
    for size in SIZES {
        let path = write(folder, megabytes * 1_000_000, size)?;
        let length = path.metadata()?.len() as f64;
        let timed = |command: &mut Command| -> Result<f64> {
            let began = Instant::now();
            let output = command.output()?;
            ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(length / began.elapsed().as_secs_f64() / 1e9)
        };
        let input = format!("if={}", path.display());
        // Each round runs both programs, because the rate of a shared machine changes.
        let mut rounds = Vec::new();
        for _ in 0..=ROUNDS {
            let dd = timed(Command::new("dd").args([&input, "of=/dev/null", "bs=1M"]))?;
            let reader = timed(Command::new(&program).arg(&path))?;
            rounds.push((reader / dd, dd, reader));
        }
        // The first round has read the file into memory.
        rounds.remove(0);
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, dd, reader) = *rounds.get(ROUNDS / 2).context("no round")?;
        let ratios: Vec<String> = rounds.iter().map(|(ratio, ..)| format!("{ratio:.2}")).collect();
        println!("{size:>12} {dd:>10.2} {reader:>10.2} {ratio:>10.2}   {}", ratios.join(" "));
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Writes a closed file of events with four fragments.
fn write(folder: &Path, bytes: u64, size: usize) -> Result<std::path::PathBuf> {
    let (run, epoch, builder) = (RunNumber::new(size as u32), Epoch::new(1), BuilderId::new(1));
    let identity = FileIdentity {
        run,
        epoch,
        builder,
        sources: (1..=4).map(SourceId::new).collect(),
        ..FileIdentity::default()
    };
    let options =
        WriterOptions { rotate_at: Bytes::MAX, fsync: FsyncPolicy::None, ..WriterOptions::default() };
    let mut writer = EventFileWriter::create(folder, identity, options)?;
    let payload: Vec<u8> = (0..size).map(|byte| (byte * 31 % 251) as u8).collect();
    for id in 1..=(bytes / (4 * size as u64)).min(1 << 20) {
        let mut event = Event::empty(EventId::new(id), run, epoch, builder);
        for source in 1..=4 {
            event.add(SourceId::new(source), Timestamp::new(id), payload.clone().into());
        }
        writer.append(&event)?;
    }
    let path = writer.path();
    writer.close()?;
    Ok(path)
}
