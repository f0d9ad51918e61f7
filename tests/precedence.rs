//! The threads of a process that take precedence over other threads on their core.
#![cfg(target_os = "linux")]

mod support;

use std::{collections::BTreeMap, fs, time::Duration};

use evb::{
    builder::{Builder, BuilderConfig, URGENT},
    id::{BuilderId, SourceId},
    sink::ChannelSink,
    source::{Source, SourceConfig},
    supervisor::SupervisorConfig,
};
use evb_needs::{Missing, skip};
use evb_net::host::{PRECEDENCE, Precedence, run_in_real_time, take_precedence};
use support::{Numbers, System, plan};

#[tokio::test]
async fn builders_whose_ports_empty_quickly_go_before_others_and_their_sinks_do_not() {
    let permitted = std::thread::spawn(take_precedence).join().expect("no panic");
    let quick = URGENT - Duration::from_nanos(1);
    let builders =
        [(quick, None), (URGENT, None), (Duration::ZERO, None), (quick, Some(false)), (URGENT, Some(true))];
    let mut system = System::lead(SupervisorConfig::new("127.0.0.1:0", plan(1, 5, 1000))).await;
    for (id, (queue_delay, precedence)) in (1..).map(BuilderId::new).zip(builders) {
        let (sink, events) = ChannelSink::new(4);
        let config = BuilderConfig { queue_delay, precedence, ..BuilderConfig::new(id, &system.address) };
        system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
        system.events.push(events);
    }
    let source = SourceConfig::new(SourceId::new(1), &system.address);
    let readout = Numbers { source: SourceId::new(1), length: 100 };
    system.sources.push(Source::on_demand(source, readout).await.expect("the source joins"));
    for events in &mut system.events {
        events.recv().await.expect("an event: the builder is at work, and has more than its sink takes");
    }
    let standing = standing_by_thread();
    let of = |name: &str| standing.get(name).copied().expect("a running thread");
    let own = of_this_thread();
    let urgent = match &permitted {
        Ok(Precedence::RealTime) => Standing { real_time: 1, ..own },
        Ok(Precedence::Nice) => Standing { nice: PRECEDENCE, ..own },
        Err(_) => own,
    };
    assert_eq!([1, 2, 3, 4, 5].map(|id| of(&format!("builder {id}"))), [urgent, own, own, own, urgent]);
    assert_eq!([1, 2, 3, 4, 5].map(|id| of(&format!("sink {id}"))), [own; 5]);
    if let Err(error) = permitted {
        skip(&Missing::new("the right to take precedence").because(error));
    }
    system.finish().await;
}

/// A thread may have real-time priority already, for example from `CPUSchedulingPolicy=fifo` in a
/// systemd unit.
#[test]
fn who_has_more_already_keeps_it() {
    let thread = || {
        run_in_real_time()?;
        let before = of_this_thread();
        take_precedence()?;
        Ok::<_, std::io::Error>((before, of_this_thread()))
    };
    match std::thread::spawn(thread).join().expect("no panic") {
        Ok((before, after)) => assert_eq!(before, after),
        Err(error) => skip(&Missing::new("the right to run in real time").because(error)),
    }
}

/// Priority of a thread for the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    nice: i32,
    /// Real-time priority; 0 if the thread is not real-time.
    real_time: u32,
}

/// Returns the priority of each thread of this process, by the thread's name.
fn standing_by_thread() -> BTreeMap<String, Standing> {
    let threads = fs::read_dir("/proc/self/task").expect("Linux has it");
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats.filter_map(|stat| standing(&stat)).collect()
}

fn of_this_thread() -> Standing {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
    standing(&stat).expect("as proc(5) has it").1
}

/// Parses a line as described in proc(5): the second field is the name in brackets, the 19th
/// `nice`, the 40th the real-time priority.
fn standing(stat: &str) -> Option<(String, Standing)> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let name = head.split_once(" (")?.1.to_owned();
    let fields: Vec<&str> = tail.split(' ').collect();
    let (nice, real_time) = (fields.get(19 - 3)?.parse().ok()?, fields.get(40 - 3)?.parse().ok()?);
    Some((name, Standing { nice, real_time }))
}
