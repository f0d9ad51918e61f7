//! Sources of the library in other programs, which have no front ends but their handles.

use std::{sync::mpsc, thread, time::Duration};

use bytes::Bytes;
use evb::prelude::*;
use evb_core::fragment::Timestamp;

use crate::{
    readouts::{count, presence, stop},
    system::{System, foreign, fragment},
};

/// Returns the fragment that a front end would send.
fn of(source: u16, event: u64) -> Fragment {
    let bytes = fragment(source, 1, event);
    Fragment::new(EventId::new(event), Timestamp::new(event), Bytes::from(bytes).slice(20..))
}

/// Readout that takes longer than the deadline for its first fragment.
struct Slow {
    is_first: bool,
}

impl Readout for Slow {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        if std::mem::take(&mut self.is_first) {
            thread::sleep(Duration::from_millis(300));
        }
        Some(of(2, event.number()))
    }
}

/// Connects both sources of a system, of which the second one reads out on demand. Returns the
/// first one, and the thread that drives both.
fn connect(system: &System) -> (BlockingSource, thread::JoinHandle<()>) {
    let config = |id| SourceConfig::new(SourceId::new(id), system.supervisor());
    let configs = [config(1), config(2)];
    let (sender, receiver) = mpsc::channel();
    let driving = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let [one, two] = configs;
            let one = Source::connect(one).await.unwrap();
            let two = Source::on_demand(two, Slow { is_first: true }).await.unwrap();
            sender.send(one.blocking()).unwrap();
            one.finished().await.unwrap();
            two.finished().await.unwrap();
        });
    });
    (receiver.recv().unwrap(), driving)
}

#[test]
fn a_source_of_the_library_falls_silent_and_delivers_again() {
    let system = System::without_sources();
    let (one, driving) = connect(&system);
    system.wait_until_ready(0);
    system.begin();
    let push = |events: std::ops::Range<u64>| {
        for event in events {
            one.push(of(1, event)).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    };
    push(1..50);
    // The source does not push any more.
    let status = system.wait_for("silent", |status| {
        assert_eq!(presence(status, 2), "up", "readout on demand is asked: {status:#}");
        presence(status, 1) == "no readout"
    });
    let next = count(&status, "triggered");
    push(next..next + 200);
    system.wait_for("back", |status| presence(status, 1) == "up");
    stop(&system, &["no readout", "silent until the deadline", "given up at the end of the run"]);
    assert_eq!(foreign(&system.events(1), 1), 0);
    driving.join().unwrap();
}
