//! Tests the writer on a real file system that refuses part of a write. In place of a full disk,
//! the test sets a limit on the file size, in a separate process.
#![allow(clippy::unwrap_used)]

use std::{env, path::Path, process::Command};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, WriterOptions, existing_files};

const RUN: RunNumber = RunNumber::new(1);
const DIR: &str = "EVB_FILE_TEST_DIR";

fn event(id: u64) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(1), BuilderId::new(1));
    event.add(SourceId::new(1), Timestamp::new(id), vec![id as u8; 40_000].into());
    event
}

/// Writes events until a write is refused. This test does nothing unless the other test of this
/// file has started it, in a process with a limited file size.
#[test]
fn writer_under_a_limit() {
    let Some(dir) = env::var_os(DIR) else { return };
    let identity = FileIdentity {
        run: RUN,
        epoch: Epoch::new(1),
        builder: BuilderId::new(1),
        sources: vec![SourceId::new(1)],
        ..FileIdentity::default()
    };
    let mut writer = EventFileWriter::create(&dir, identity, WriterOptions::default()).unwrap();
    for first in (1..100).step_by(2) {
        let batch = [event(first), event(first + 1)];
        let outcome = batch.iter().try_for_each(|event| writer.append(event)).and_then(|()| writer.commit());
        if let Err(error) = outcome {
            let text = error.to_string();
            assert!(text.contains("os error 27"), "{text}");
            let committed = writer.written().events;
            assert_eq!(error.not_accepted()[0], EventId::new(committed + 1));
            println!("committed {committed}");
            // A retry is refused again, and must not damage the file.
            assert!(batch.iter().try_for_each(|event| writer.append(event)).is_err());
            return;
        }
    }
    panic!("no write was refused");
}

#[test]
fn a_write_that_the_system_refuses_leaves_a_readable_file() {
    let dir = tempfile::tempdir().unwrap();
    // SIGXFSZ is ignored, so that a write beyond the limit fails with EFBIG instead of killing the
    // process. 400 blocks are 200 or 400 kB, depending on the shell.
    let limited = "trap '' XFSZ; ulimit -f 400; exec \"$0\" --exact writer_under_a_limit --nocapture";
    let output = Command::new("sh")
        .args(["-c", limited])
        .arg(env::current_exe().unwrap())
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let committed = text.split("committed ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let committed: u64 = committed.expect(&text).parse().unwrap();
    assert!(committed >= 2, "{text}");
    assert_eq!(ids(&existing_files(dir.path(), RUN).unwrap()[0]), (1..=committed).collect::<Vec<_>>());
}

fn ids(path: &Path) -> Vec<u64> {
    EventFile::open(path).unwrap().events().map(|event| event.unwrap().id.number()).collect()
}
