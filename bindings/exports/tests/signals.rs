//! Trains of signals at exports: the output is whole or absent, and nothing that is left prevents
//! the next try. `EVB_SIGNAL_TRAINS` sets the number of trains.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    rng::Rng,
};
use evb_file::{EventFileWriter, FileIdentity, WriterOptions};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const SIGNALS: [Signal; 16] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGXCPU,
    Signal::SIGPWR,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGSTKFLT,
    Signal::SIGPIPE,
    Signal::SIGXFSZ,
    Signal::SIGKILL,
];

/// Writes a file of 20 MB.
fn write(dir: &Path) {
    let (run, run_id, epoch, builder) =
        (RunNumber::new(7), RunId::new(0x5eed_cafe << 96), Epoch::new(1), BuilderId::new(1));
    let sources = vec![SourceId::new(1)];
    let identity = FileIdentity { run, run_id, epoch, builder, sources, ..FileIdentity::default() };
    let mut writer = EventFileWriter::create(dir, identity, WriterOptions::default()).unwrap();
    for id in 1..=200 {
        let mut event = Event::empty(EventId::new(id), run, epoch, builder);
        event.run_id = run_id;
        event.add(SourceId::new(1), Default::default(), vec![id as u8; 100_000].into());
        writer.append(&event).unwrap();
    }
    writer.close().unwrap();
}

fn export(dir: &Path, format: &str, out: &str) -> Child {
    // A test in the background of a script would hand on that it ignores SIGINT.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_evb-export"), "in", "--to", format, "--out", out]);
    command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn trains_of_signals_leave_an_export_whole_or_absent() {
    let trains = env::var("EVB_SIGNAL_TRAINS").map_or(6, |count| count.parse().unwrap());
    let mut rng = Rng::new(37);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    write(&path.join("in"));
    let read = |name: &str| fs::read(path.join(name)).ok();
    let (mut whole, mut absent) = (0, 0);
    for format in ["hdf5", "parquet"] {
        let reference = format!("reference-{format}");
        let begun = Instant::now();
        assert!(export(path, format, &reference).wait().unwrap().success());
        let (duration, reference) = (begun.elapsed(), read(&reference));
        for _ in 0..trains / 2 {
            let _ = fs::remove_file(path.join("out"));
            let mut child = export(path, format, "out");
            sleep(duration.mul_f64(1.1 * rng.uniform()));
            let train: Vec<Signal> = (0..1 + rng.below(6)).map(|_| SIGNALS[rng.below(16) as usize]).collect();
            for signal in &train {
                // The child has not been waited for, so its id is its own.
                let _ = kill(Pid::from_raw(child.id().cast_signed()), *signal);
                sleep(Duration::from_millis(rng.below(50)));
            }
            let ended = child.wait().unwrap();
            let found = read("out");
            assert!(found.is_some() || !ended.success(), "{train:?}: {ended}");
            if found.is_none() {
                absent += 1;
                assert!(export(path, format, "out").wait().unwrap().success(), "after {train:?}");
            } else {
                whole += 1;
            }
            assert!(read("out") == reference, "after {train:?}, which left it absent: {}", found.is_none());
            assert!(!path.join("out.part").exists(), "after {train:?}");
        }
    }
    println!("of {trains} exports, {whole} were whole, and {absent} absent");
}
