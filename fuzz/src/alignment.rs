//! Fuzz target for the alignment guard: clocks that a supervisor declares, boards whose timestamps
//! say anything, in any order, and answers of sources that say anything.

use arbitrary::Arbitrary;
use evb_core::{
    alignment::{
        Doubt, Explanation, Finding, Gathered, Guard, GuardedClocks, Inquiry, StreamGuard, Survey,
        message_of, start, survey_of,
    },
    fragment::Timestamp,
    id::EventId,
    index::ClockIndex,
    time::Instant,
    wire::control::{Begin, Clock, ClockRelation, ClockRelations},
};

/// Largest number of steps, of clocks and of events, to limit the time of a fuzz input.
const STEPS: usize = 200;
const CLOCKS: usize = 8;
const EVENTS: u64 = 1000;
/// Largest number of findings that a [`StreamGuard`] keeps.
const FINDINGS: usize = 1000;

/// Declaration of a clock by a supervisor: the numbers of a [`Clock`], of which most are drawn from
/// a range in which clocks are accepted.
#[derive(Arbitrary, Debug)]
pub struct Declared {
    source: u8,
    rate_khz: u32,
    wrap: u64,
    bits: u8,
    tolerance_ns: u16,
    accuracy_ppm: u8,
    /// Another rate, tolerance and accuracy, from all numbers.
    any: Option<[u64; 3]>,
}

/// Declarations for the guards of a run.
#[derive(Arbitrary, Debug)]
pub struct Setting {
    clocks: Vec<Declared>,
    lead: u8,
    host_times: bool,
    learnt: Option<Learnt>,
}

/// Relations that another builder has learnt, and whether each is proven and suspect.
#[derive(Arbitrary, Debug)]
pub struct Learnt {
    lead: u8,
    at: u64,
    host_ns: u64,
    relations: Vec<([u64; 6], bool, bool)>,
}

impl Learnt {
    /// Returns the message about that many clocks.
    fn message(&self, count: usize) -> ClockRelations {
        let relation = |(numbers, is_proven, is_suspect): &([u64; 6], bool, bool)| {
            let ([ticks, at, phase, rate, bound, blur], is_proven, is_suspect) =
                (*numbers, *is_proven, *is_suspect);
            ClockRelation { ticks, at, is_proven, phase, rate, bound, is_suspect, blur }
        };
        let mut clocks: Vec<_> = self.relations.iter().map(relation).collect();
        clocks.resize_with(count, ClockRelation::default);
        ClockRelations { lead: self.lead.into(), at: self.at, host_ns: self.host_ns, clocks }
    }
}

/// A step of the test. Numbers of clocks are reduced modulo their number.
#[derive(Arbitrary, Debug)]
pub enum Step {
    /// The next events of the run, with this mean interval in nanoseconds.
    Events(u8, u32),
    /// An event in any order, with the readings of the boards or, where there are some, with these.
    Event(i8, Vec<Option<u64>>),
    /// From now on, a board delivers the timestamps of later events, by this number of events.
    Slip(u8, i8),
    /// A board's clock leaps.
    Leap(u8, u64),
    /// From now on, a board sends nothing, or sends again.
    Silence(u8),
    /// Time passes without events, on boards and host, and then on the host only.
    Pause(u64, i64),
    /// An operator takes the timestamps as right.
    Learn(u8),
    /// The supervisor must be told everything again.
    Again,
    /// A source answers with readings of any events.
    Answer(u8, Vec<(u64, u64)>),
}

/// The machines of a run, and a model of its boards.
struct Bench {
    clocks: GuardedClocks,
    guard: Guard,
    stream: StreamGuard,
    inquiries: Vec<(Inquiry, Survey)>,
    gathered: Gathered,
    boards: Vec<Board>,
    event: u64,
    events: u64,
    /// Time on the boards since the begin, and on the host, in nanoseconds.
    time: u64,
    host: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Board {
    slip: i8,
    leap: u64,
    is_silent: bool,
}

/// Performs the steps on the guard of a builder, on that over files, and on the inquiries of a
/// supervisor, and checks their invariants after each event.
///
/// # Panics
/// Panics if a machine violates an invariant, or if a number is not finite.
pub fn run(setting: &Setting, steps: &[Step]) {
    let clocks = declared(setting);
    let Some(mut bench) = Bench::new(clocks, setting) else { return };
    for step in steps.iter().take(STEPS) {
        bench.step(step);
    }
    bench.end();
}

/// Returns the clocks that a builder takes from the declaration.
fn declared(setting: &Setting) -> GuardedClocks {
    let message = |declared: &Declared| {
        let usual = [
            u64::from(declared.rate_khz) * 1_000_000_000,
            declared.tolerance_ns.into(),
            u64::from(declared.accuracy_ppm) * 1000,
        ];
        let [rate_uhz, tolerance_ns, accuracy_ppb] = declared.any.unwrap_or(usual);
        let bits = u32::from(declared.bits) % 66;
        Clock {
            source: (declared.source % 16).into(),
            rate_uhz,
            bits,
            wrap: declared.wrap,
            tolerance_ns,
            accuracy_ppb,
        }
    };
    let begin = Begin {
        clocks: setting.clocks.iter().take(CLOCKS).map(message).collect(),
        lead: setting.lead.into(),
        host_times: setting.host_times,
        ..Begin::default()
    };
    let clocks = GuardedClocks::of(&begin);
    assert!(clocks.clocks.is_sorted_by(|(one, _), (next, _)| one < next), "{clocks:?}");
    assert!(clocks.clocks.iter().all(|(_, clock)| clock.check().is_ok()), "{clocks:?}");
    assert!(clocks.lead.is_none_or(|lead| lead.get() < clocks.clocks.len()), "{clocks:?}");
    let again = clocks.clocks.iter().map(|(source, clock)| message_of(*source, clock)).collect();
    let again = GuardedClocks::of(&Begin { clocks: again, ..begin });
    assert_eq!(again.clocks.len(), clocks.clocks.len(), "a clock is refused that was declared before");
    clocks
}

impl Bench {
    fn new(clocks: GuardedClocks, setting: &Setting) -> Option<Self> {
        if !clocks.can_compare() {
            return None;
        }
        let all = clocks.only_clocks();
        let mut guard = match clocks.lead {
            Some(lead) => Guard::with_lead(&all, lead),
            None => Guard::new(&all),
        };
        if !clocks.host_times {
            guard = guard.without_host_times();
        }
        let learnt = setting.learnt.as_ref().map(|learnt| learnt.message(all.len()));
        if let Some(survey) = learnt.and_then(|learnt| survey_of(&learnt, &clocks).ok()) {
            guard.resume(&survey);
            guard.invariants();
        }
        Some(Self {
            guard,
            stream: StreamGuard::new(&all),
            inquiries: Vec::new(),
            gathered: Gathered::new(all.len()),
            boards: vec![Board::default(); all.len()],
            clocks,
            event: 0,
            events: 0,
            time: 0,
            host: 1 << 60,
        })
    }

    fn step(&mut self, step: &Step) {
        let count = self.boards.len();
        let clock = |clock: &u8| usize::from(*clock) % count;
        match step {
            Step::Events(events, interval) => {
                for _ in 0..*events {
                    self.event = self.event.saturating_add(1);
                    self.time = self.time.saturating_add((*interval).into());
                    self.host = self.host.saturating_add((*interval).into());
                    self.observe(self.event, &[]);
                }
            }
            Step::Event(ahead, readings) => {
                self.observe(self.event.saturating_add_signed((*ahead).into()), readings);
            }
            Step::Slip(board, by) => self.boards[clock(board)].slip = by % 20,
            Step::Leap(board, by) => self.boards[clock(board)].leap = *by,
            Step::Silence(board) => self.boards[clock(board)].is_silent ^= true,
            Step::Pause(both, host) => {
                self.time = self.time.saturating_add(*both);
                self.host = self.host.saturating_add_unsigned(*both).saturating_add(*host);
            }
            Step::Learn(board) => self.guard.learn(ClockIndex::new(clock(board))),
            Step::Again => {
                let _ = self.guard.doubt_again();
            }
            Step::Answer(board, readings) => {
                let readings =
                    readings.iter().map(|(event, ticks)| (EventId::new(*event), Timestamp::new(*ticks)));
                self.gathered.add(ClockIndex::new(clock(board)), readings);
            }
        }
    }

    /// Returns the reading of a board for an event that many events after the present one.
    fn reading(&self, board: usize, ahead: i64) -> u64 {
        let Board { slip, leap, .. } = self.boards[board];
        let rate = self.clocks.clocks[board].1.rate.hertz();
        // A millisecond and some irregular time stand for the interval between two events.
        let ahead = (ahead + i64::from(slip)) * 1_000_000;
        let time = self.time.saturating_add_signed(ahead);
        ((time as f64 * rate / 1e9) as u64).wrapping_add(leap)
    }

    fn observe(&mut self, event: u64, forced: &[Option<u64>]) {
        if self.events == EVENTS {
            return;
        }
        self.events += 1;
        let ahead = event.wrapping_sub(self.event).cast_signed().clamp(-128, 128);
        let read = |board: usize| match forced.get(board) {
            Some(forced) => *forced,
            None => (!self.boards[board].is_silent).then(|| self.reading(board, ahead)),
        };
        let readings: Vec<_> = (0..self.boards.len()).map(read).collect();
        let (id, host) = (EventId::new(event), Instant::from_nanos(self.host.cast_unsigned()));
        let seen = self.guard.observe(id, host, &readings);
        self.guard.invariants();
        let most = self.boards.len() as u32;
        assert!(seen.disagree <= most && seen.doubts <= most && seen.returned <= most, "{seen:?}");
        assert!(!seen.calm || seen.disagree + seen.doubts + seen.returned == 0, "{seen:?}");
        self.stream.observe((event % 2) as usize, id, host, &readings);
        for (board, reading) in readings.iter().enumerate() {
            let reading = reading.map(|ticks| (id, Timestamp::new(ticks)));
            self.gathered.add(ClockIndex::new(board), reading);
        }
        self.gathered.add_hosts([(id, host)]);
        self.inquire(id);
    }

    /// Does what a supervisor does about the doubts of a builder.
    fn inquire(&mut self, event: EventId) {
        while let Some(doubt) = self.guard.next_doubt() {
            let source = self.clocks.source(doubt.clock).expect("a clock of the run");
            let doubt = Doubt::of(&doubt.message(source), &self.clocks).expect("a doubt of our own");
            let message = self.guard.survey().message();
            let survey = survey_of(&message, &self.clocks).expect("relations of our own");
            assert_eq!(survey.message(), message);
            start(&survey, &self.gathered, doubt.clock);
            match self.inquiries.iter_mut().find(|(open, _)| open.clock() == doubt.clock) {
                Some((open, _)) => open.add(&doubt),
                None => self.inquiries.push((Inquiry::new(&doubt, event), survey)),
            }
        }
        while self.guard.next_returned().is_some() {}
        let gathered = &self.gathered;
        self.inquiries.retain_mut(|(open, survey)| {
            let found = (open.next_look() <= event).then(|| open.look(survey, gathered)).flatten();
            found.iter().for_each(look_at);
            found.is_none()
        });
    }

    fn end(mut self) {
        for (mut open, survey) in self.inquiries.drain(..) {
            open.conclude(&survey, &self.gathered, EventId::new(self.events)).iter().for_each(look_at);
        }
        let found = self.stream.finish();
        assert!(found.events == self.events && found.disagreeing <= found.events);
        assert!(found.findings.len() <= FINDINGS);
        for clock in &found.clocks {
            assert!(clock.agree + clock.disagree + clock.unknown <= found.events, "{clock:?}");
        }
        found.findings.iter().for_each(look_at);
    }
}

/// Checks that people can read what was found.
fn look_at(found: &Finding) {
    match found.verdict {
        Explanation::Slip { shift, .. } => assert!(shift != 0 && shift.abs() <= 16, "{found:?}"),
        Explanation::ClockJump { nanos: number } | Explanation::OtherRate { ppm: number } => {
            assert!(number.is_finite(), "{found:?}");
        }
        Explanation::OtherBits(bits) => assert!((1..=64).contains(&bits), "{found:?}"),
        _ => {}
    }
    let sentence = found.verdict.sentence(|clock| format!("{clock:?}"));
    assert!(!sentence.is_empty() && !sentence.contains("NaN"), "{sentence}");
}
