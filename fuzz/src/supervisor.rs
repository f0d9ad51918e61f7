//! Fuzz target for the supervisor's state machine, which gets messages of honest and malicious
//! peers.

use std::time::Duration;

use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    alignment::{GuardedClocks, readings_message},
    id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId},
    supervisor::{OnSlip, Output, RunPlan, SupervisorCore},
    time::Instant,
    trigger::TriggerKind,
    wire::control::{
        Begin, Begun, Clock, Completions, Control, Hello, MAX_MESSAGE, Message, Ready, Report, Stop, Triggers,
    },
};

use crate::{
    control,
    script::{Piece, join, pieces},
};

const PEERS: [Peer; 4] = [
    Peer::Source(SourceId::new(3)),
    Peer::Source(SourceId::new(5)),
    Peer::Builder(BuilderId::new(1)),
    Peer::Builder(BuilderId::new(2)),
];
/// Kind of an input piece that is the hello of a peer.
pub const REGISTER: u8 = 0;
/// Kind of an input piece that is a control message of a peer.
pub const SAY: u8 = 1;
const DISCONNECT: u8 = 2;
const PASS: u8 = 3;
/// Largest number of outputs that are fetched after one step; like `STEPS`, it limits the time of a
/// fuzz input.
const OUTPUTS: usize = 20_000;
const STEPS: usize = 300;

/// Performs each input piece as a step of the peer that its kind selects: a hello, a control
/// message, the end of the connection, or the passing of time.
///
/// # Panics
/// Panics if the event counts do not add up, or the run does not end.
pub fn check(data: &[u8]) {
    let now = Instant::from_nanos(5);
    let Ok(core) = SupervisorCore::new(plan(TriggerKind::External), 3, now) else { return };
    drive(core, pieces(data), now);
}

/// Returns the plan of a run with the sources 3 and 5, which have clocks, and the builders 1 and 2.
pub fn plan(trigger: TriggerKind) -> RunPlan {
    let clocks = [3, 5].map(|source| Clock { source, ..control::clock() }).to_vec();
    RunPlan {
        slots: 2,
        clocks: GuardedClocks::of(&Begin { clocks, ..Begin::default() }),
        on_slip: OnSlip::Pause,
        trigger,
        boot_id: "here".to_owned(),
        ..RunPlan::new(
            RunNumber::new(7),
            Epoch::new(99),
            vec![SourceId::new(3), SourceId::new(5)],
            vec![BuilderId::new(1), BuilderId::new(2)],
        )
    }
}

/// Performs the steps on a supervisor, and ends its run.
///
/// # Panics
/// Panics in the same cases as [`check`].
pub fn drive<'a>(mut core: SupervisorCore, steps: impl Iterator<Item = Piece<'a>>, mut now: Instant) {
    for (kind, bytes) in steps.take(STEPS) {
        let peer = PEERS[usize::from(kind >> 4) % PEERS.len()];
        match kind & 3 {
            REGISTER => {
                if let Ok(hello) = Hello::decode(bytes) {
                    let _ = core.register(&hello, now);
                }
            }
            SAY => {
                if let Ok(message) = Control::read(bytes) {
                    core.handle_message(peer, message, now);
                }
            }
            DISCONNECT => core.handle_disconnect(peer, "the connection broke", now),
            _ => {
                let millis = bytes.first_chunk().map_or(1, |millis| u16::from_le_bytes(*millis));
                now += Duration::from_millis(millis.into());
                core.handle_timeout(now);
            }
        }
        if settle(&mut core, now) {
            return;
        }
    }
    end(core, now);
}

/// Fetches the outputs of the supervisor's state machine, and returns true if the run has ended.
fn settle(core: &mut SupervisorCore, now: Instant) -> bool {
    for _ in 0..OUTPUTS {
        match core.poll(now) {
            Some(Output::Send { message, .. }) => assert!(message.encoded_len() <= MAX_MESSAGE),
            Some(Output::Drop { reason, .. }) => assert!(!reason.is_empty()),
            Some(Output::Begun(_)) => {}
            Some(Output::Journal(entry)) => assert!(entry.what.is_some()),
            Some(Output::Ended(report)) => {
                assert_eq!(report.events.open(), Some(0));
                return true;
            }
            None => break,
        }
    }
    core.invariants();
    assert_eq!(core.progress().events.triggered, core.decided().number());
    false
}

fn end(mut core: SupervisorCore, mut now: Instant) {
    core.stop("the end", now);
    // If builders are silent, the supervisor waits for them for 90 s, and each heartbeat in this
    // time takes one iteration.
    for _ in 0..2000 {
        if settle(&mut core, now) {
            return;
        }
        now = core.next_timeout().unwrap_or(now).max(now);
        core.handle_timeout(now);
    }
    panic!("the run does not end");
}

/// Returns the steps after which all peers are registered and the sources are connected to the
/// builders.
pub fn opening() -> Vec<(u8, Vec<u8>)> {
    let hello = |peer| Hello {
        listen: "127.0.0.1:7101".to_owned(),
        max_fragment: 1000,
        boot_id: "here".to_owned(),
        ..Hello::new(peer, Peer::Supervisor)
    };
    let mut opening: Vec<_> = PEERS.map(|peer| (REGISTER, hello(peer).encode_to_vec())).to_vec();
    opening.extend([0, 1].map(|peer| (SAY | peer << 4, say(Message::Ready(Ready {})))));
    opening.extend((0..4).map(|peer| (SAY | peer << 4, say(Message::Begun(Begun::default())))));
    opening
}

fn say(message: Message) -> Vec<u8> {
    Control { message: Some(message) }.encode_to_vec()
}

/// Returns the steps of a complete run of three events, as the supervisor sees them.
pub fn run() -> Vec<(u8, Vec<u8>)> {
    let completed = |event| {
        let mut completions = Completions::default();
        completions.add(&mut EventId::default(), EventId::new(event));
        say(Message::Completions(completions))
    };
    let mut run = opening();
    run.push((SAY, say(Message::Triggers(Triggers { count: 3 }))));
    run.extend([(SAY | 2 << 4, completed(1)), (SAY | 3 << 4, completed(2)), (SAY | 2 << 4, completed(3))]);
    run.push((PASS, 300u16.to_le_bytes().to_vec()));
    run.push((SAY, say(Message::Stop(Stop { cause: "enough".to_owned() }))));
    run.extend((0..4).map(|peer| (SAY | peer << 4, say(Message::Report(Report::default())))));
    run
}

/// Returns the steps of a run in which source 5 has missed the trigger of event 2.
fn slip() -> Vec<(u8, Vec<u8>)> {
    let ticks = |event: u64| event * 125_000 + event * event * 7919 % 60_000;
    let answer = |peer: u8, question: u32, last: u64| {
        let of = |event: u64| (event, ticks(event + u64::from(peer == 1 && event > 1)));
        (SAY | peer << 4, say(Message::Readings(readings_message(question, (1..=last).rev().map(of)))))
    };
    let triggers = || (SAY, say(Message::Triggers(Triggers { count: 60 })));
    let mut slip = opening();
    slip.extend([triggers(), (SAY | 2 << 4, say(Message::Alignment(control::doubts())))]);
    slip.extend([answer(0, 1, 60), answer(1, 1, 60), triggers(), (PASS, vec![1, 0])]);
    slip.extend([answer(0, 2, 120), answer(1, 2, 120), (PASS, vec![1, 0])]);
    slip
}

/// Returns the seed corpus: a run of three events, a run in which a board misses a trigger, and a
/// sequence of all types of messages.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = opening();
    for (number, message) in control::messages().iter().enumerate() {
        all.push((SAY | (number as u8 % 4) << 4, message.encode_to_vec()));
    }
    all.push((DISCONNECT | 1 << 4, Vec::new()));
    let joined = |script: &[(u8, Vec<u8>)]| {
        join(&script.iter().map(|(kind, bytes)| (*kind, &bytes[..])).collect::<Vec<_>>())
    };
    vec![joined(&run()), joined(&slip()), joined(&all)]
}
