//! Boards that miss or double a trigger, whose clock or trigger counter goes wrong, or that send
//! what is left of another run, while the run goes on: page, log, status, metrics, summary, files,
//! `evbd verify --align` and Python say the same. Eight of the twelve sources have front ends in
//! Python, and four are of the library. `EVB_EDGE_MISALIGNED=all` runs all cases, and `=20,21`
//! these; without it, a few are run.

mod case;
mod views;

use std::{
    env, thread,
    time::{Duration, Instant},
};

use evb::supervisor::StateDir;
use evb_file::{Episode, Merge, Selection};
use serde_json::{Value, json};

use self::{
    case::{Case, EVENTS, FAULTY, Fault, SILENT, SOURCES, Triggers},
    views::{View, episodes_of, named, read_by_python, verified},
};
use crate::detector::Detector;

/// Cases that are run without `EVB_EDGE_MISALIGNED`.
const FEW: [usize; 5] = [1, 36, 75, 88, 112];
/// Time within which all views say the same.
const SOON: Duration = Duration::from_secs(20);

/// The texts of a report.
struct Report {
    summary: Value,
    problems: Vec<String>,
    remarks: Vec<String>,
}

impl Report {
    fn new(summary: Value) -> Self {
        let texts = |key: &str| -> Vec<String> {
            let all = summary[key].as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        Self { problems: texts("problems"), remarks: texts("remarks"), summary }
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.problems.iter().chain(&self.remarks)
    }

    fn of_source(&self, source: u16) -> &Value {
        &self.summary["sources"][usize::from(source) - 1]
    }
}

impl Case {
    fn run(&self, seed: u64) {
        let is_looked_at = self.can_be_named() && self.killed.is_none();
        let mut detector = Detector::start(self.layout(seed, "", is_looked_at));
        detector.begin();
        if let Some(killed) = self.killed {
            while detector.triggers() < self.at + 5 {
                thread::sleep(Duration::from_millis(1));
            }
            detector.kill(killed);
            thread::sleep(Duration::from_millis(200));
            detector.launch(killed);
        }
        let summary = if is_looked_at {
            self.look(&detector);
            detector.end()
        } else {
            detector.summary()
        };
        self.check(&detector, &Report::new(summary));
    }

    /// Waits for the end of all events, and compares what can be seen then.
    fn look(&self, detector: &Detector) {
        detector.wait_for("settled", |status| {
            let of = |outcome: &str| status["survey"]["events"][outcome].as_u64().unwrap_or(0);
            of("complete") + of("incomplete") + of("inhibited") == EVENTS
        });
        let until = Instant::now() + SOON;
        loop {
            let view = View::new(detector);
            let mut wrong = self.differences(&view);
            (1..=SOURCES).for_each(|source| wrong.extend(self.differences_of(source, &view)));
            if wrong.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{self:?}: {wrong:#?}\n{view:#?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns what status, metrics and log do not say about a source's timestamps, or say
    /// differently.
    fn differences_of(&self, source: u16, view: &View) -> Vec<String> {
        let (mut wrong, is_misaligned) = (Vec::new(), self.is_misaligned(source));
        let mut expect = |is: bool, what: &str| wrong.extend((!is).then(|| what.to_owned()));
        let alignment = &view.status["survey"]["sources"][usize::from(source) - 1]["alignment"];
        let (state, since) = (alignment["state"].as_str().unwrap(), &alignment["since"]);
        let sentence = alignment["sentence"].as_str().unwrap();
        let problem = match state {
            "misaligned" => format!("in wrong events since event {since}: it {sentence}"),
            "doubted" => format!("its timestamps disagree with the others since event {since}"),
            _ => String::new(),
        };
        let told = view.problems(source);
        expect(problem.is_empty() || told.iter().any(|told| told["text"] == problem), &problem);
        expect(view.table.contains(&problem), &problem);
        let bad = told.iter().filter(|problem| problem["severity"] == "bad").count();
        let metric = format!("evb_problems{{severity=\"bad\",subject=\"{}\"}} {bad}.0", named(source));
        expect(bad == 0 || view.has_metric(&metric), &metric);
        let is_told = u8::from(state == "misaligned");
        let metric = format!("evb_source_is_misaligned{{source=\"{source}\"}} {is_told}.0");
        expect(view.has_metric(&metric), &metric);
        let line = format!("since event {since}, {} {sentence}", named(source));
        let is_right = match state {
            _ if self.may_be_unclear() && source == FAULTY => true,
            "misaligned" => is_misaligned && *since == self.since() && view.log.contains(&line),
            // Of a clock that stays wrong, it may not be clear yet that it does.
            "doubted" => !is_misaligned && self.faulty().contains(&source),
            _ => !is_misaligned,
        };
        expect(is_right, &format!("source {source}: {alignment}"));
        wrong
    }

    /// Returns what status, metrics and log do not say about the faulty source, or say differently.
    fn differences(&self, view: &View) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |is: bool, what: &str| wrong.extend((!is).then(|| what.to_owned()));
        if let Some(text) = self.problem_of_counter() {
            let is_begin = |told: &&Value| told["text"].as_str().is_some_and(|told| told.starts_with(&text));
            expect(view.problems(FAULTY).iter().any(is_begin) && view.table.contains(&text), &text);
        }
        for (_, metric, count) in self.counted() {
            let line = format!("evb_source_{metric} {count}");
            expect(view.has_metric(&line), &line);
        }
        for faulty in self.faulty().iter().filter(|_| self.kind().is_some()) {
            let words = format!(", {} ", named(*faulty));
            let is_there = |line: &str| line.contains("since event ") && line.contains(&words);
            expect(view.log.lines().any(is_there), &words);
        }
        wrong
    }

    /// Returns true if a source delivers fragments of other events to the end.
    fn is_misaligned(&self, source: u16) -> bool {
        let lasts = self.shift().is_some() || self.fault == Fault::Exchanged;
        lasts && self.faulty().contains(&source)
    }

    /// Compares summary, log, files and `evbd verify --align`.
    fn check(&self, detector: &Detector, report: &Report) {
        let Report { summary, problems, .. } = report;
        let is_named = |text: &&String| self.faulty().iter().any(|faulty| text.contains(&named(*faulty)));
        let told_since: Vec<&String> = report.all().filter(|text| text.contains("since event")).collect();
        assert!(told_since.iter().all(is_named), "{self:?}: an innocent source: {summary:#}");
        let merge = Merge::open(&[detector.path("out")], &Selection::default()).unwrap();
        let told = merge.identity().episodes.clone();
        let verified = verified(detector);
        let found = episodes_of(&verified);
        assert!(
            told.iter().chain(&found).all(|episode| self.faulty().contains(&episode.source.number())),
            "{self:?}: {told:?}"
        );
        let records = StateDir::new(detector.path("evb-state")).records().unwrap();
        let kinds = |all: &[Episode]| all.iter().map(|one| (one.since, one.kind.clone())).collect::<Vec<_>>();
        assert_eq!(records.first().map(|record| kinds(&record.episodes)), Some(kinds(&told)), "{self:?}");
        if self.killed.is_none() && !self.may_be_unclear() {
            // The run only knows that an episode is over soon after its last event, and may measure
            // a rate in other events.
            let without_end = |all: &[Episode]| -> Vec<(Episode, bool)> {
                let known = |one: &Episode| Episode { until: None, text: String::new(), ..one.clone() };
                let cut = |one: &Episode| (known(one), one.until.is_some());
                all.iter().map(cut).collect()
            };
            assert_eq!(
                without_end(&told),
                without_end(&found),
                "{self:?}: the files and evbd verify: {summary:#}"
            );
        }
        let log = detector.log();
        for episode in &told {
            let words =
                format!("since event {}, {} {}", episode.since, named(episode.source.number()), episode.text);
            assert!(log.contains(&words), "{self:?}: {words}: {log}");
            assert!(report.all().any(|text| text.starts_with(&words)), "{self:?}: {words}: {summary:#}");
        }
        if let Some(kind) = self.kind() {
            let expected: Vec<_> = self.faulty().iter().map(|source| (*source, kind)).collect();
            let all: Vec<_> = told.iter().map(|one| (one.source.number(), one.kind.as_str())).collect();
            assert_eq!(all, expected, "{self:?}: {told:?}");
        }
        if let Some(read) = read_by_python(detector) {
            self.check_python(&read, &told, report, &verified);
        }
        if self.counter.is_some() {
            self.check_counter(report);
        }
        if self.counter.is_none() || (self.fault == Fault::SkipsZero && self.at < EVENTS) {
            self.check_report(report, &told, &told_since);
        }
        assert_eq!(summary["exit_code"], u64::from(!problems.is_empty()), "{self:?}: {summary:#}");
    }

    /// Checks what the report says about the timestamps of the faulty board.
    fn check_report(&self, report: &Report, told: &[Episode], told_since: &[&String]) {
        let Report { summary, problems, .. } = report;
        let is_suspect = |text: &String| text.contains("the run ended before it was clear");
        match self.shift() {
            Some(shift) if self.can_be_named() => {
                let [episode] = told else { panic!("{self:?}: {told:?} {summary:#}") };
                assert_eq!(episode.shift, Some(shift), "{self:?}: {episode:?}");
                let tolerated = if self.killed.is_none() { 0 } else { 150 };
                assert!(
                    (self.since()..=self.since() + tolerated).contains(&episode.since.number()),
                    "{self:?}: {episode:?}"
                );
                let since = format!("since event {}, {}", episode.since, named(self.faulty()[0]));
                assert!(problems.iter().any(|text| text.starts_with(&since)), "{self:?}: {summary:#}");
            }
            // Near the end of the run, rings hold too little to tell.
            Some(_) if self.at < EVENTS => {
                let since = format!("since event {}", self.since());
                let is_told = |text: &&String| is_suspect(text) || text.contains(&since);
                assert!(told_since.iter().any(is_told), "{self:?}: {summary:#}");
            }
            Some(1) => {
                let words =
                    format!("delivered {} of {EVENTS} fragments, none for the last event", EVENTS - 1);
                assert!(problems.iter().any(|text| text.contains(&words)), "{self:?}: {summary:#}");
            }
            None if self.fault == Fault::Resets => {
                let is_right = told.iter().all(|episode| !episode.misaligned);
                assert!(is_right && problems.iter().all(is_suspect), "{self:?}: {summary:#}");
                assert!(!told_since.is_empty(), "{self:?}: {summary:#}");
            }
            _ => assert!(!told_since.is_empty(), "{self:?}: {summary:#}"),
        }
    }

    /// Checks what evb counts and reports of the faulty board's trigger counter.
    fn check_counter(&self, report: &Report) {
        let Report { summary, problems, remarks } = report;
        let of = |key: &str| report.of_source(FAULTY)[key].as_u64().unwrap();
        for (key, _, count) in self.counted() {
            assert_eq!(of(key), count, "{self:?}: {key}: {summary:#}");
        }
        let (words, is_problem) = self.report_on_counter().unwrap();
        let texts = if is_problem { problems } else { remarks };
        let is_there = |text: &String| text.contains(words) && text.contains(&named(FAULTY));
        assert!(texts.iter().any(is_there), "{self:?}: {words}: {summary:#}");
        let rest = EVENTS + 1 - self.at;
        let missing = match self.fault {
            Fault::LeavesOut(count) => count.min(rest),
            Fault::SkipsZero => 1,
            Fault::LosesWrap => SILENT + rest,
            Fault::CounterFalls => rest,
            _ => 0,
        };
        assert_eq!(of("missing"), missing, "{self:?}: {summary:#}");
    }

    /// Compares what Python reads from the files with the episodes of the run, with the ledger, and
    /// with what the boards have sent.
    fn check_python(&self, read: &Value, told: &[Episode], report: &Report, verified: &Value) {
        let summary = &report.summary;
        let episode = |one: &Episode| json!([one.source.number(), one.since.number(), one.shift, one.kind]);
        assert_eq!(read["episodes"], told.iter().map(episode).collect::<Value>(), "{self:?}");
        let events = |what: &str, source: u16| -> Vec<u64> {
            let all = read[what][source.to_string()].as_array();
            all.into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        for source in 1..=SOURCES {
            let (agree, disagree) = (events("agree", source), events("disagree", source));
            let foreign = events("foreign", source);
            // No fragment is called right that is of another event.
            let wrong: Vec<_> = agree.iter().filter(|event| foreign.contains(event)).collect();
            assert!(wrong.is_empty() || !self.is_learnt(), "{self:?}: source {source}: {wrong:?}");
            if !self.faulty().contains(&source) {
                assert!(
                    disagree.is_empty() && foreign.is_empty(),
                    "{self:?}: source {source}: {disagree:?} {foreign:?}"
                );
            } else if self.can_be_named() && self.is_learnt() && self.shift().is_some() {
                let wrong: Vec<_> = agree.iter().filter(|event| **event >= self.at).collect();
                assert!(wrong.is_empty(), "{self:?}: {wrong:?}");
                // A source that is killed loses fragments.
                let is_missing = self.killed.is_some() && events("missing", source).contains(&self.since());
                assert!(is_missing || disagree.contains(&self.since()), "{self:?}: {disagree:?}");
            }
            if self.counter.is_some() && self.fault != Fault::SkipsZero {
                let is_right = disagree.is_empty() && foreign.is_empty();
                assert!(is_right, "{self:?}: source {source}: {disagree:?} {foreign:?}");
            }
            if self.killed.is_none() {
                let of = |key: &str| report.of_source(source)[key].as_u64().unwrap();
                let (missing, disagreeing) = (events("missing", source).len(), disagree.len());
                assert_eq!(of("missing"), missing as u64, "{self:?}: source {source}: {summary:#}");
                assert_eq!(of("disagreeing"), disagreeing as u64, "{self:?}: source {source}: {summary:#}");
                let by = verified["runs"][0]["misaligned_by"].as_array().unwrap();
                let count = by
                    .iter()
                    .find(|one| one["source"] == source)
                    .map_or(0, |one| one["events"].as_u64().unwrap());
                assert_eq!(count, disagreeing as u64, "{self:?}: source {source}: {verified:#}");
            }
        }
    }
}

/// Returns the numbers of the cases that are run; `None`: all.
fn wanted() -> Option<Vec<usize>> {
    match env::var("EVB_EDGE_MISALIGNED") {
        Ok(all) if all == "all" => None,
        Ok(listed) => Some(listed.split(',').map(|number| number.parse().unwrap()).collect()),
        Err(_) => Some(FEW.to_vec()),
    }
}

#[test]
fn a_board_that_goes_wrong_is_named_everywhere() {
    let wanted = wanted();
    for (number, case) in Case::all().into_iter().enumerate() {
        if wanted.as_ref().is_none_or(|wanted| wanted.contains(&number)) {
            println!("case {number}: {case:?}");
            case.run(number as u64);
        }
    }
}

/// A run pauses soon after a slip, and then the page shows the source.
#[test]
fn a_run_pauses_soon_after_a_slip() {
    let is_all = wanted().is_none();
    let usual = (Triggers::Poisson, 1);
    let others = [(Triggers::Periodic, 0), (Triggers::Poisson, 0), (Triggers::Spills, 1)];
    let others = others.into_iter().filter(|_| is_all);
    for (number, (triggers, turn)) in [usual].into_iter().chain(others).enumerate() {
        let (fault, killed, counter) = (Fault::Slips(1), None, None);
        let case = Case { fault, at: 330, triggers, builders: 2, killed, turn, counter };
        let mut detector = Detector::start(case.layout(3, "[alignment]\non_slip = \"pause\"", false));
        detector.begin();
        while detector.triggers() < case.at {
            thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        detector.wait_for("paused", |status| status["state"] == "Paused");
        println!("paused {:?} after the slip", begun.elapsed());
        // A host with much load may be slow.
        let longest = Duration::from_secs(if is_all { 1 } else { 5 });
        assert!(begun.elapsed() < longest, "{:?}", begun.elapsed());
        if number == 0 && evb_needs::granted(evb_needs::programs(&["chromium"])).is_some() {
            check_page(&detector);
        }
        detector.end();
    }
}

/// Checks that the page names the faulty source in its problems and in the list of sources.
fn check_page(detector: &Detector) {
    let view = View::new(detector);
    let text = view.problems(FAULTY)[0]["text"].as_str().unwrap();
    let alignment = &view.status["survey"]["sources"][usize::from(FAULTY) - 1]["alignment"];
    let sentence = alignment["sentence"].as_str().unwrap();
    let title = format!("since event {}, it {sentence}: stop the run", alignment["since"]);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let page = detector.page();
        let is_shown = |words: &str| page.contains(words);
        if is_shown(text) && is_shown(&title) && is_shown(">misaligned</span>") {
            return;
        }
        assert!(Instant::now() < until, "{text}, {title}: {page}");
    }
}
