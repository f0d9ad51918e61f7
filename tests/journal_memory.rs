//! A supervisor that recovers a run needs memory for the state of that run, but not for its
//! history. The test is alone in its program, because the operating system measures the memory of
//! the whole process.

use std::{fs, io::Write, path::Path, time::Duration};

use evb::{
    id::{BuilderId, EventId, Peer, RunNumber, SourceId},
    supervisor::{
        JournalConfig, JournalFsync, RunPlan, Supervisor, SupervisorConfig, TriggerKind, unfinished_run,
    },
};
use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    supervisor::{Output, Recipients, SupervisorCore},
    time::Instant,
    wire::{
        control::{Begun, Completions, Control, Hello, Message, Ready},
        journal::Entry,
    },
};
use evb_net::clock;

/// Length that a journal reaches before it is compacted.
const LENGTH: u64 = 8 << 20;

const PEERS: [Peer; 3] =
    [Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1)), Peer::Builder(BuilderId::new(2))];

fn plan() -> RunPlan {
    let builders = vec![BuilderId::new(1), BuilderId::new(2)];
    RunPlan {
        slots: 64,
        trigger: TriggerKind::External,
        journal: true,
        boot_id: evb_net::host::boot_id(),
        ..RunPlan::new(RunNumber::new(7), SupervisorConfig::fresh_epoch(), vec![SourceId::new(1)], builders)
    }
}

/// Writes an entry in version 1 of the journal's format: length, CRC-32C, the entry.
fn write(entry: &Entry, file: &mut impl Write) -> u64 {
    let body = entry.encode_to_vec();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &body) as u32;
    for part in [&(body.len() as u32).to_le_bytes()[..], &sum.to_le_bytes()[..], &body[..]] {
        file.write_all(part).expect("there is room for a journal");
    }
    body.len() as u64 + 8
}

fn says(core: &mut SupervisorCore, peer: Peer, message: Message, now: Instant) {
    core.handle_message(peer, Control { message: Some(message) }, now);
}

/// Writes the journal of a run whose builders build all events at once; no entry stays in memory.
fn write_journal(plan: &RunPlan, path: &Path) {
    let mut now = Instant::from_nanos(clock::now().as_nanos() / 2);
    let mut core = SupervisorCore::new(plan.clone(), 1, now).expect("the plan makes sense");
    let mut file = std::io::BufWriter::new(fs::File::create(path).expect("there is room for a journal"));
    file.write_all(b"evbjrn\x01\n").expect("there is room for a journal");
    for peer in PEERS {
        let hello = Hello { listen: "127.0.0.1:1".to_owned(), ..Hello::new(peer, Peer::Supervisor) };
        core.register(&hello, now).expect("a planned peer");
    }
    says(&mut core, PEERS[0], Message::Ready(Ready {}), now);
    for peer in PEERS {
        says(&mut core, peer, Message::Begun(Begun::default()), now);
    }
    let (mut length, mut before) = (0, [0; 2]);
    while length < LENGTH {
        now += Duration::from_nanos(100);
        core.trigger(20, now);
        let mut built = [Completions::default(), Completions::default()];
        while let Some(output) = core.poll(now) {
            match output {
                Output::Journal(entry) => length += write(&entry, &mut file),
                Output::Send { to: Recipients::Builder(id), message } => {
                    let Some(Message::Assignments(batch)) = message.message else { continue };
                    let built = &mut built[usize::from(id.number() - 1)];
                    let mut last = EventId::default();
                    for (event, _) in batch.events().expect("a valid message") {
                        built.add(&mut last, event);
                    }
                }
                _ => {}
            }
        }
        for (index, mut built) in built.into_iter().enumerate() {
            built.before = before[index];
            before[index] += built.count() as u64;
            says(&mut core, PEERS[1 + index], Message::Completions(built), now);
        }
    }
    file.flush().expect("there is room for a journal");
}

/// Returns the value of `VmRSS` or `VmHWM` of this process, in bytes.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find(|line| line.starts_with(key)).expect("every process has memory");
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    number.expect("a number of kilobytes") << 10
}

/// Returns the result of `work`, and the amount by which its peak of memory exceeds the memory used
/// before.
async fn peak<T>(work: impl Future<Output = T>) -> (T, u64) {
    fs::write("/proc/self/clear_refs", "5").expect("our own peak can be forgotten");
    let before = memory("VmRSS");
    let done = work.await;
    (done, memory("VmHWM").saturating_sub(before))
}

#[tokio::test]
async fn a_long_journal_is_gone_on_with_in_less_memory_than_it_is_long() {
    let directory = tempfile::tempdir().expect("there is room for a file");
    let path = directory.path().join("journal");
    let plan = plan();
    write_journal(&plan, &path);
    let (run, looking) = peak(async { unfinished_run(&path).expect("a readable journal") }).await;
    assert_eq!(run, Some(plan.run));
    let journal = Some(JournalConfig { path, fsync: JournalFsync::None });
    let config = SupervisorConfig { journal, ..SupervisorConfig::new("127.0.0.1:0", plan) };
    let (supervisor, going_on) = peak(Supervisor::bind(config)).await;
    drop(supervisor.expect("the run goes on"));
    println!("{looking} bytes to look for the run, {going_on} to go on with it");
    assert!(looking.max(going_on) < LENGTH / 2, "{looking} and {going_on} bytes");
}
