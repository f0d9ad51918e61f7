use core::time::Duration;

use super::*;
use crate::{
    alignment::{ClockWrap, DetectorClock, message_of},
    id::{BuilderId, Peer, SourceId},
    supervisor::{
        RunPlan, RunState,
        tests::{EVERYBODY, Stage, builder, hello, plan, recovered, source},
    },
    time::{ClockState, Utc, WallClock},
    trigger::TriggerKind,
    wire::control::{Heartbeat, Hello, Leaving, Name, ReadoutState, ReadoutStatus, Ready, Reason},
};

/// Returns a run whose peers are ready, and whose builders know runs up to `highest`.
fn ready(plan: RunPlan, highest: [u64; 2]) -> Stage {
    let mut stage = Stage::new(plan);
    for peer in EVERYBODY {
        let highest_run = match peer {
            Peer::Builder(id) => highest[usize::from(id.number()) - 1],
            _ => 0,
        };
        stage.core.register(&Hello { highest_run, ..hello(peer) }, stage.now).unwrap();
        stage.poll_once();
    }
    for peer in [source(3), source(5)] {
        stage.core.handle_message(peer, control(Message::Ready(Ready {})), stage.now);
        stage.poll_once();
    }
    stage
}

fn held() -> RunPlan {
    RunPlan { hold: true, ..plan(TriggerKind::External) }
}

fn control(message: Message) -> crate::wire::control::Control {
    crate::wire::control::Control { message: Some(message) }
}

fn answer(stage: &mut Stage, peer: Peer, refusal: &str) {
    let begun = Begun { refusal: refusal.to_owned(), highest_run: 0 };
    stage.core.handle_message(peer, control(Message::Begun(begun)), stage.now);
    stage.poll_once();
}

fn state(stage: &Stage) -> (u32, RunState) {
    let progress = stage.core.progress();
    (progress.run.number(), progress.state)
}

#[test]
fn the_run_starts_when_all_peers_have_prepared() {
    let mut stage = ready(plan(TriggerKind::External), [0, 0]);
    assert_eq!(stage.begins.len(), 1, "every peer is asked at once");
    for peer in EVERYBODY {
        assert_eq!(state(&stage), (7, RunState::Configured), "before {peer} has answered");
        answer(&mut stage, peer, "");
    }
    assert_eq!((state(&stage), stage.begun), ((7, RunState::Running), Some(Ok(()))));
}

#[test]
fn the_number_is_one_that_no_storage_knows() {
    for (highest, number) in [([0, 0], 7), ([3, 1], 7), ([8, 1], 8), ([8, 13], 13)] {
        let mut stage = ready(held(), highest);
        assert_eq!(state(&stage).0, number, "provisional: {highest:?}");
        stage.core.begin(&Annotation::default(), stage.now).unwrap();
        stage.poll();
        assert_eq!(state(&stage), (number, RunState::Running), "{highest:?}");
        let fixed = ready(RunPlan { fixed_number: true, ..held() }, highest);
        assert_eq!(state(&fixed).0, 7, "{highest:?}");
    }
    let mut last = ready(held(), [1 + u64::from(u32::MAX), 0]);
    let error = last.core.begin(&Annotation::default(), last.now).unwrap_err();
    assert_eq!(error, NotReady::NoNumber(builder(1)));
    assert!(error.to_string().contains("or set `run.number` to a free number"), "{error}");
}

#[test]
fn a_builder_that_cannot_say_what_it_knows_is_named() {
    let mut stage = ready(plan(TriggerKind::External), [1, 0]);
    stage.poll();
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    let remarks = stage.core.books.findings().remarks();
    assert!(
        remarks.iter().any(|remark| remark.starts_with("builder 2 could not say in time")),
        "{remarks:?}"
    );
}

#[test]
fn a_refused_start_leaves_everything_as_it_was() {
    let mut stage = ready(held(), [0, 0]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    assert_eq!(stage.core.begin(&Annotation::default(), stage.now), Ok(()), "the answer follows");
    stage.poll_once();
    answer(&mut stage, source(3), "");
    answer(&mut stage, builder(2), "run 7 has files already");
    let refused = stage.begun.take().unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "builder 2 cannot take part: run 7 has files already; correct that on its host, where the end of its log has the details"
    );
    assert_eq!(state(&stage), (7, RunState::Configured));
    answer(&mut stage, builder(1), "");
    assert_eq!(stage.begun, None, "a late answer changes nothing");
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll();
    assert_eq!((state(&stage), stage.begun), ((7, RunState::Running), Some(Ok(()))));
}

#[test]
fn a_run_that_waits_for_nobody_fails_with_the_reason() {
    let mut stage = ready(plan(TriggerKind::External), [0, 0]);
    answer(&mut stage, builder(2), "run 7 has files already");
    let report = stage.report.unwrap();
    assert_eq!((report.exit_code, report.events.triggered), (1, 0));
    assert_eq!(
        report.failure.as_deref(),
        Some(
            "builder 2 cannot take part: run 7 has files already; correct that on its host, where the end of its log has the details"
        )
    );
}

#[test]
fn peers_that_do_not_answer_or_leave_are_named() {
    let mut stage = ready(held(), [0, 0]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    answer(&mut stage, builder(1), "");
    let preparing = stage.core.survey(stage.now).preparing;
    assert_eq!(preparing, ["source 3", "source 5", "builder 2"]);
    stage.now += held().begin_timeout;
    stage.core.handle_timeout(stage.now);
    stage.poll_once();
    let error = stage.begun.take().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "sources 3, 5, builder 2 did not prepare for the run in time: look in the log of each, and whether a disk of the builders or an `on_start` of the sources hangs"
    );
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    let leaving = Leaving { reason: "its disk\nis gone".to_owned() };
    stage.core.handle_message(builder(2), control(Message::Leaving(leaving)), stage.now);
    stage.poll_once();
    assert_eq!(stage.dropped, [builder(2)]);
    assert_eq!(
        stage.begun.take().unwrap().unwrap_err().to_string(),
        "builder 2 cannot take part: its diskis gone; correct that on its host, where the end of its log has the details"
    );
    let error = stage.core.begin(&Annotation::default(), stage.now).unwrap_err();
    assert!(error.to_string().contains("builder 2 (its diskis gone); start them"), "{error}");
}

#[test]
fn a_peer_that_is_lost_while_the_run_begins_may_come_back() {
    let mut stage = ready(held(), [0, 0]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    stage.core.handle_disconnect(builder(1), "reset", stage.now);
    [source(3), source(5), builder(2)].into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    assert_eq!((state(&stage), stage.begins.len()), ((7, RunState::Configured), 1));
    stage.core.register(&Hello { incarnation: 1, ..hello(builder(1)) }, stage.now).unwrap();
    stage.poll_once();
    assert_eq!(stage.begins[1].0, Recipients::Builder(BuilderId::new(1)));
    answer(&mut stage, builder(1), "");
    assert_eq!(state(&stage), (7, RunState::Running));
}

#[test]
fn a_builder_that_cannot_join_the_run_is_turned_away() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.core.add_builder(BuilderId::new(3), stage.now).unwrap();
    stage.core.register(&hello(builder(3)), stage.now).unwrap();
    stage.poll_once();
    assert_eq!(stage.begins.last().unwrap().1.run, 7);
    for peer in [source(3), source(5)] {
        stage.core.handle_message(peer, control(Message::Ready(Ready {})), stage.now);
    }
    stage.core.trigger(6, stage.now);
    stage.poll_once();
    assert_eq!(stage.assigned(3), [], "no event before it has prepared");
    answer(&mut stage, builder(3), "run 7 has files of another run");
    let to = Recipients::Builder(BuilderId::new(3));
    let is_end = |(to_whom, message): &(Recipients, Message)| match message {
        Message::RunEnd(end) => *to_whom == to && end.verdict.contains("files of another run"),
        _ => false,
    };
    assert!(stage.sent.iter().any(is_end), "{:?}", stage.sent);
}

#[test]
fn a_peer_that_cannot_take_part_says_so_when_it_registers() {
    let mut stage = Stage::new(held());
    // A builder without a port has no address to state.
    let unable = Hello { unable: "its port is taken".to_owned(), listen: String::new(), ..hello(builder(1)) };
    let refusal = stage.core.register(&unable, stage.now).unwrap_err();
    assert_eq!(refusal.reason, Reason::Configuration);
    let survey = stage.core.survey(stage.now);
    assert_eq!(survey.builders[0].parting, "its port is taken");
    stage.register(builder(1));
    assert_eq!(stage.core.survey(stage.now).builders[0].parting, "");
}

#[test]
fn a_builder_that_was_started_again_in_vain_says_so_within_the_lease_of_the_last_one() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    let again = |unable: &str| Hello { unable: unable.to_owned(), ..hello(builder(1)) };
    let refusal = stage.core.register(&again("its disk is full"), stage.now).unwrap_err();
    assert_eq!(refusal.reason, Reason::DuplicateId, "another process takes part");
    stage.core.handle_disconnect(builder(1), "it was killed", stage.now);
    let refusal = stage.core.register(&again(""), stage.now).unwrap_err();
    assert!(refusal.detail.contains("may still write events"), "{}", refusal.detail);
    let refusal = stage.core.register(&again("its disk is full"), stage.now).unwrap_err();
    assert_eq!(refusal.reason, Reason::Configuration, "{}", refusal.detail);
    assert_eq!(stage.core.survey(stage.now).builders[0].parting, "its disk is full");
}

#[test]
fn a_run_that_is_stopped_before_it_begins_is_no_failure() {
    let mut gathering = Stage::new(plan(TriggerKind::External));
    gathering.register(source(3));
    for mut stage in [gathering, ready(plan(TriggerKind::External), [0, 0])] {
        stage.core.stop("a signal", stage.now);
        stage.poll();
        let report = stage.report.unwrap();
        assert_eq!((report.exit_code, &report.verdict[..]), (0, "stopped before it began"));
        assert_eq!(report.problems, [""; 0]);
        assert_eq!(report.remarks, ["the run was stopped before it began, so it has no events: a signal"]);
    }
}

#[test]
fn the_number_and_the_beginning_survive_the_supervisor() {
    let mut stage = ready(RunPlan { journal: true, ..held() }, [0, 12]);
    let wall = WallClock { utc: Utc::from_nanos(77), state: ClockState::Unknown };
    stage.core.handle_wall_clock(wall, stage.now);
    let annotation = Annotation { kind: "cosmics".to_owned(), comment: String::new() };
    stage.core.begin(&annotation, stage.now).unwrap();
    stage.poll_once();
    let killed = stage.core.begun();
    assert_eq!((killed.run, killed.begun_utc_ns, killed.kind.as_str()), (12, 77, "cosmics"));
    let next = recovered(&held(), &stage.journal, stage.now + Duration::from_secs(1)).unwrap();
    assert_eq!((next.begun(), next.progress().state), (killed.clone(), RunState::Configured));
    stage.poll();
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    let next = recovered(&held(), &stage.journal, stage.now).unwrap();
    assert_eq!((next.begun(), next.progress().state), (killed, RunState::Recovering));
    let again = recovered(&held(), &stage.core.snapshot(stage.now), stage.now).unwrap();
    assert_eq!(again.begun(), next.begun());
}

/// Returns a plan whose source 5 and builder 1 have names.
fn named(journal: bool) -> RunPlan {
    let mut plan = RunPlan { journal, ..held() };
    plan.source_names.insert(SourceId::new(5), "TPC crate 1".to_owned());
    plan.builder_names.insert(BuilderId::new(1), "left rack".to_owned());
    plan
}

#[test]
fn peers_are_told_the_names_also_by_a_later_supervisor() {
    let mut stage = ready(named(true), [0, 0]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    let name = |id, name: &str| Name { id, name: name.to_owned() };
    let begin = &stage.begins[0].1;
    assert_eq!(
        (&begin.sources, &begin.builders),
        (&vec![name(5, "TPC crate 1")], &vec![name(1, "left rack")])
    );
    let next = recovered(&named(true), &stage.journal, stage.now + Duration::from_secs(1)).unwrap();
    assert_eq!(next.begun(), stage.core.begun());
    let survey = next.survey(stage.now);
    let names: Vec<_> = survey.sources.iter().map(|source| (source.id, source.name.as_str())).collect();
    assert_eq!(names, [(3, ""), (5, "TPC crate 1")]);
    assert_eq!(survey.builders[0].name, "left rack");
}

#[test]
fn the_report_has_the_names() {
    let mut stage = Stage::running(RunPlan { hold: false, ..named(false) });
    stage.core.stop("enough", stage.now);
    stage.pass(Duration::from_secs(60), &[]);
    let report = stage.report.expect("the run is over");
    assert_eq!(
        (report.sources[1].name.as_str(), report.builders[0].name.as_str()),
        ("TPC crate 1", "left rack")
    );
    let says = |text: &str| report.problems.iter().any(|problem| problem.starts_with(text));
    assert!(says("source 5 (TPC crate 1) gave no final report"), "{:?}", report.problems);
    assert!(says("source 3 gave no final report"), "{:?}", report.problems);
}

/// A source that should have a front end says how many are connected.
fn connect(stage: &mut Stage, source: Peer, connected: u32) {
    let status = ReadoutStatus { state: ReadoutState::Present, expected: 1, connected, holds_first: false };
    stage.core.handle_message(source, control(Message::Readout(status)), stage.now);
    stage.poll_once();
}

/// Returns a run whose peers are ready, and whose sources have no front end yet.
fn without_front_ends(rule: FirstReadouts, hold: bool) -> Stage {
    let mut stage =
        ready(RunPlan { hold: true, first_readouts: rule, ..plan(TriggerKind::External) }, [0, 0]);
    connect(&mut stage, source(3), 0);
    connect(&mut stage, source(5), 0);
    stage.core.plan.hold = hold;
    stage
}

#[test]
fn a_run_that_begins_by_itself_waits_for_its_readouts() {
    let mut stage = without_front_ends(FirstReadouts::Await, false);
    connect(&mut stage, source(3), 1);
    assert!(stage.begins.is_empty() && !stage.core.progress().has_readouts);
    connect(&mut stage, source(5), 1);
    assert_eq!((stage.begins.len(), stage.core.progress().has_readouts), (1, true));
}

#[test]
fn a_run_whose_readouts_do_not_come_begins_without_them_and_says_so() {
    for rule in [FirstReadouts::Await, FirstReadouts::Refuse] {
        let mut stage = without_front_ends(rule, false);
        connect(&mut stage, source(3), 1);
        while stage.begins.is_empty() {
            let next = stage.core.next_timeout().unwrap();
            assert!(next <= Instant::from_nanos(1_000_000) + stage.core.plan.start_timeout, "{rule:?}");
            EVERYBODY.iter().for_each(|peer| {
                stage.core.handle_message(*peer, control(Message::Heartbeat(Heartbeat::default())), next);
            });
            stage.now = next;
            stage.core.handle_timeout(next);
            stage.poll_once();
        }
        EVERYBODY.iter().for_each(|peer| answer(&mut stage, *peer, ""));
        assert_eq!(state(&stage), (7, RunState::Running));
        let remarks = stage.core.books.findings().remarks();
        let said = "source 5 had no readout at the start of the run, because none of its front ends was connected: start its readout program, which may join during the run";
        assert_eq!(remarks.last().map(String::as_str), Some(said), "{rule:?}");
    }
}

#[test]
fn a_start_without_readouts_is_refused_on_request_only() {
    let mut stage = without_front_ends(FirstReadouts::Refuse, true);
    connect(&mut stage, source(5), 1);
    let begun = stage.core.begin(&Annotation::default(), stage.now);
    assert_eq!(begun, Err(NotReady::NoReadout(vec![source(3)])));
    assert!(begun.unwrap_err().to_string().contains("source 3"));
    connect(&mut stage, source(3), 1);
    assert_eq!(stage.core.begin(&Annotation::default(), stage.now), Ok(()));
    let mut stage = without_front_ends(FirstReadouts::Warn, true);
    assert_eq!(stage.core.begin(&Annotation::default(), stage.now), Ok(()));
}

/// Registers all peers; each source declares a clock with as many bits.
fn register_with_clocks(stage: &mut Stage, bits: [u8; 2]) {
    for peer in EVERYBODY {
        let clock = match peer {
            Peer::Source(id) => {
                let bits = bits[usize::from(id.number() == 5)];
                let rate = "125 MHz".parse().unwrap();
                Some(message_of(SourceId::new(99), &DetectorClock::new(rate, ClockWrap::Bits(bits))))
            }
            _ => None,
        };
        stage.core.register(&Hello { clock, ..hello(peer) }, stage.now).unwrap();
        stage.poll_once();
    }
    for peer in [source(3), source(5)] {
        stage.core.handle_message(peer, control(Message::Ready(Ready {})), stage.now);
        stage.poll_once();
    }
}

#[test]
fn sources_may_declare_their_clocks_themselves() {
    let declared = |plan: RunPlan, bits| {
        let mut stage = Stage::new(plan);
        register_with_clocks(&mut stage, bits);
        let begin = stage.core.begun();
        assert_eq!(stage.core.watch.is_some(), begin.clocks.len() > 1);
        begin.clocks.iter().map(|clock| (clock.source, clock.bits)).collect::<Vec<_>>()
    };
    let usual = || plan(TriggerKind::External);
    assert_eq!(declared(usual(), [48, 40]), [(3, 48), (5, 40)]);
    assert_eq!(declared(usual(), [48, 65]), [(3, 48)], "a clock that cannot be is ignored");
    let mut with_one = usual();
    let own = DetectorClock::new("1 MHz".parse().unwrap(), ClockWrap::Bits(32));
    with_one.clocks.adopt([(SourceId::new(5), own)]);
    assert_eq!(declared(with_one, [48, 40]), [(3, 48), (5, 32)], "the plan goes before");
}

#[test]
fn the_clocks_that_sources_declared_are_in_the_journal() {
    let journaled = RunPlan { journal: true, ..plan(TriggerKind::External) };
    let mut stage = Stage::new(journaled.clone());
    register_with_clocks(&mut stage, [48, 40]);
    let next = recovered(&journaled, &stage.journal, stage.now).unwrap();
    assert_eq!(next.begun().clocks, stage.core.begun().clocks);
    assert_eq!((next.begun().clocks.len(), next.watch.is_some()), (2, true));
}

fn asking(hold: bool) -> Stage {
    let mut stage = ready(RunPlan { asks_permission: true, hold, ..plan(TriggerKind::External) }, [1, 1]);
    if hold {
        assert!(!asks_permission(&stage.core), "the run has not been called");
        stage.core.begin(&Annotation::default(), stage.now).unwrap();
    }
    stage.poll_once();
    assert!(asks_permission(&stage.core));
    stage
}

fn last_remark(stage: &Stage) -> Option<&str> {
    stage.core.books.findings().remarks().last().map(String::as_str)
}

#[test]
fn a_run_begins_with_the_permission_and_the_answers_of_all_peers() {
    let mut stage = asking(false);
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    assert_eq!(state(&stage), (7, RunState::Configured), "before the permission");
    assert_eq!(stage.core.survey(stage.now).preparing, ["the hook run_starts"]);
    Beginning { core: &mut stage.core }.permit(Ok(Some("no magnet".to_owned())), stage.now);
    stage.poll_once();
    assert_eq!((state(&stage), last_remark(&stage)), ((7, RunState::Running), Some("no magnet")));
    Beginning { core: &mut stage.core }.permit(Err("too late".to_owned()), stage.now);
    assert_eq!(state(&stage), (7, RunState::Running), "nothing asks any more");

    let mut stage = asking(false);
    Beginning { core: &mut stage.core }.permit(Ok(None), stage.now);
    assert_eq!(state(&stage), (7, RunState::Configured), "before the peers have answered");
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    assert_eq!((state(&stage), last_remark(&stage)), ((7, RunState::Running), None));
}

#[test]
fn a_veto_stops_the_beginning_and_the_next_start_asks_again() {
    let mut stage = asking(true);
    Beginning { core: &mut stage.core }.permit(Err("no beam".to_owned()), stage.now);
    stage.poll_once();
    assert_eq!(stage.begun.take(), Some(Err(NotReady::Vetoed("no beam".to_owned()))));
    assert!(!asks_permission(&stage.core) && !stage.core.has_begun());
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    Beginning { core: &mut stage.core }.permit(Ok(None), stage.now);
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    assert_eq!(state(&stage), (7, RunState::Running));

    let mut alone = asking(false);
    Beginning { core: &mut alone.core }.permit(Err("no beam".to_owned()), alone.now);
    alone.poll();
    let failure = alone.report.unwrap().failure;
    assert_eq!(failure.as_deref(), Some("the run may not begin: no beam; remove that cause"));
}

#[test]
fn a_run_whose_question_has_no_answer_begins_with_a_remark() {
    let mut stage = asking(true);
    EVERYBODY.into_iter().for_each(|peer| answer(&mut stage, peer, ""));
    stage.now += held().begin_timeout;
    stage.core.handle_timeout(stage.now);
    stage.poll_once();
    assert_eq!(state(&stage), (7, RunState::Running));
    assert_eq!(last_remark(&stage), Some(NO_PERMISSION));
}
