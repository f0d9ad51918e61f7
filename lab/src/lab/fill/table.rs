//! [`Rounds`]: the measurements of a case, ratios of paired runs, a readable table, and the bounds.

use lab_base::{
    outcome::median,
    report::{Bound, Report},
    system::Transport,
};
use serde_json::{Value, json};

use super::{
    Case,
    turn::{Measured, Program},
};

/// All rounds of a case; a round holds one run of each program, in the order of `programs`.
pub(super) struct Rounds {
    case: Case,
    programs: Vec<Program>,
    rounds: Vec<Vec<Measured>>,
}

/// Ratios of two programs' figures, each from runs of the same round.
pub(super) struct Paired {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) all: Vec<f64>,
}

impl Rounds {
    pub(super) fn new(case: Case, programs: Vec<Program>) -> Self {
        Self { case, programs, rounds: Vec::new() }
    }

    pub(super) fn add(&mut self, round: Vec<Measured>) {
        self.rounds.push(round);
    }

    fn place(&self, program: &Program) -> Option<usize> {
        self.programs.iter().position(|other| other == program)
    }

    fn all(&self, place: usize, get: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.rounds.iter().map(|round| get(&round[place])).collect()
    }

    /// Returns a figure of program `one` divided by that of program `other`, round by round; `None`
    /// if one of them takes no turns.
    pub(super) fn ratio(
        &self,
        one: &Program,
        other: &Program,
        get: impl Fn(&Measured) -> f64,
    ) -> Option<Paired> {
        let (one, other) = (self.place(one)?, self.place(other)?);
        let all: Vec<f64> = self.rounds.iter().map(|round| get(&round[one]) / get(&round[other])).collect();
        let by = |pick: fn(f64, f64) -> f64| all.iter().copied().reduce(pick).unwrap_or(f64::NAN);
        Some(Paired { median: median(all.iter().copied()), least: by(f64::min), most: by(f64::max), all })
    }

    /// Returns the other evbd (`--before`) over the same transport, if it takes turns.
    fn before(&self, transport: Transport) -> Option<&Program> {
        self.programs.iter().find(|program| matches!(program, Program::Before(t, _) if *t == transport))
    }

    pub(super) fn json(&self) -> Value {
        let rounds: Vec<Value> = self
            .rounds
            .iter()
            .map(|round| {
                let runs = self.programs.iter().zip(round);
                runs.map(|(program, measured)| (program.name(), measured.json()))
                    .collect::<serde_json::Map<_, _>>()
            })
            .map(Value::Object)
            .collect();
        json!({ "network": self.case.shape.to_string(), "fragment_bytes": self.case.fragment, "rounds": rounds })
    }
}

/// Formats the results of one round as a line.
pub(super) fn line(number: usize, programs: &[Program], round: &[Measured]) -> String {
    let mut line = format!("  round {number:>2}:");
    for (program, measured) in programs.iter().zip(round) {
        line +=
            &format!("  {} {:.2} Gbit/s, {} dropped", program.name(), measured.goodput / 1e9, measured.drops);
        if measured.p99.is_finite() {
            line += &format!(", p50 {:.2} p99 {:.2} ms", measured.p50 / 1e3, measured.p99 / 1e3);
        }
        line += ";";
    }
    line
}

/// Formats the results of all cases as a Markdown table. A ratio is shown as `median (worst
/// round)`.
pub(super) fn markdown(tables: &[Rounds]) -> String {
    let mut text = String::from(
        "| case | program | events/s | Gbit/s | of iperf3 | of ZeroMQ | of before | dropped, by round | processor s/GB | p50 ms | p99 ms |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for rounds in tables {
        for (place, program) in rounds.programs.iter().enumerate() {
            text += &row(rounds, place, program);
        }
    }
    text
}

fn row(rounds: &Rounds, place: usize, program: &Program) -> String {
    let middle = |get: fn(&Measured) -> f64| median(rounds.all(place, get));
    let goodput = |m: &Measured| m.goodput;
    let of = |other: Option<&Program>| {
        let paired =
            other.filter(|other| *other != program).and_then(|other| rounds.ratio(program, other, goodput));
        paired.map_or_else(|| "–".to_owned(), |ratio| format!("{:.3} ({:.3})", ratio.median, ratio.least))
    };
    let before = match program {
        Program::Evb(transport) => rounds.before(*transport),
        _ => None,
    };
    format!(
        "| {} | {} | {} | {:.2} | {} | {} | {} | {} | {} | {} | {} |\n",
        rounds.case.name(),
        program.name(),
        whole(middle(|m| m.events_per_s)),
        middle(goodput) / 1e9,
        of(Some(&Program::Iperf)),
        of(Some(&Program::Zeromq)),
        of(before),
        drops(&rounds.rounds.iter().map(|round| round[place].drops).collect::<Vec<_>>()),
        figure(middle(|m| m.cpu_s_per_gb)),
        figure(middle(|m| m.p50 / 1e3)),
        figure(middle(|m| m.p99 / 1e3)),
    )
}

fn whole(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "–".to_owned() }
}

fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() }
}

/// Returns `0` if no round had drops, otherwise the drops of each round.
fn drops(all: &[u64]) -> String {
    if all.iter().all(|drops| *drops == 0) {
        return "0".to_owned();
    }
    all.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the least goodput that evb must reach through a full port, as a multiple of `iperf3`'s
/// goodput, by port buffer and number of sources. Returns `None` if the case has no bound, and the
/// ratio to `iperf3` is only noted.
fn asked_of_iperf(case: &Case) -> Option<f64> {
    let usual = if case.shape.sources == 1 { super::ALONE } else { super::AMONG_OTHERS };
    if case.shape.rate != 10_000_000_000 || case.shape.builders != 1 || case.fragment != usual {
        return None;
    }
    match (case.shape.port_buffer / 1024, case.shape.sources) {
        (128 | 512, 1 | 2) | (512, 8) => Some(0.95),
        (128, 8) | (512, 32) => Some(0.90),
        (128, 32) => Some(0.85),
        _ => None,
    }
}

/// Checks the bounds on drops, goodput and latency of a case.
pub(super) fn judge(rounds: &Rounds, report: &mut Report) {
    let name = rounds.case.name();
    for (place, program) in rounds.programs.iter().enumerate().filter(|(_, program)| program.is_judged()) {
        let most = rounds.all(place, |m| m.drops as f64).into_iter().fold(0.0, f64::max);
        report.holds(
            &format!("{name} {}: packets dropped, most of a round", program.name()),
            most,
            Bound::AtMost(0.0),
        );
    }
    let goodput = |m: &Measured| m.goodput;
    for program in &rounds.programs {
        let what = |other: &str| format!("{name}: {} over {other}", program.name());
        match program {
            Program::Evb(transport) => {
                if let Some(ratio) = rounds.ratio(program, &Program::Iperf, goodput) {
                    tell(report, &what("iperf3"), &ratio, asked_of_iperf(&rounds.case).map(Bound::AtLeast));
                }
                if let Some(ratio) = rounds.ratio(program, &Program::Zeromq, goodput) {
                    let is_asked = asked_of_iperf(&rounds.case).is_some() && rounds.case.shape.sources >= 8;
                    let bound = (is_asked && rounds.case.rate.is_none()).then_some(Bound::AtLeast(1.4));
                    tell(report, &what("ZeroMQ"), &ratio, bound);
                }
                if *transport == Transport::Udp
                    && let Some(ratio) = rounds.ratio(program, &Program::Evb(Transport::Tcp), goodput)
                {
                    tell(report, &what("TCP"), &ratio, Some(Bound::AtLeast(0.95)));
                }
                if let Some(ratio) =
                    rounds.before(*transport).and_then(|before| rounds.ratio(program, before, goodput))
                {
                    tell(report, &what("before"), &ratio, None);
                }
                latencies(rounds, program, report, true);
            }
            Program::Twice(transport) => {
                if let Some(ratio) = rounds.ratio(program, &Program::Evb(*transport), goodput) {
                    tell(report, &what("the peak"), &ratio, Some(Bound::AtLeast(0.99)));
                }
            }
            Program::With(transport, _) | Program::Window(transport) => {
                if let Some(ratio) = rounds.ratio(program, &Program::Evb(*transport), goodput) {
                    tell(report, &what("the default"), &ratio, None);
                }
                latencies(rounds, program, report, false);
            }
            Program::Iperf | Program::Zeromq | Program::Before(..) => {}
        }
    }
}

/// Compares latencies with those of ZeroMQ if the case has a trigger rate; bounds are checked only
/// if `is_held`.
fn latencies(rounds: &Rounds, program: &Program, report: &mut Report, is_held: bool) {
    if rounds.case.rate.is_none() {
        return;
    }
    for (quantile, get, bound) in
        [("p50", (|m: &Measured| m.p50) as fn(&Measured) -> f64, 1.1), ("p99", |m: &Measured| m.p99, 1.5)]
    {
        if let Some(ratio) = rounds.ratio(program, &Program::Zeromq, get) {
            let what = format!("{}: {quantile} of {} over ZeroMQ's", rounds.case.name(), program.name());
            tell(report, &what, &ratio, is_held.then_some(Bound::AtMost(bound)));
        }
    }
}

/// Checks the median of a ratio against its bound, if there is a bound, and notes the ratios of all
/// rounds.
fn tell(report: &mut Report, what: &str, ratio: &Paired, bound: Option<Bound>) {
    if let Some(bound) = bound {
        report.noisy(what, ratio.median, bound);
    }
    let all: Vec<String> = ratio.all.iter().map(|ratio| format!("{ratio:.3}")).collect();
    report.note(format!(
        "{what}: median {:.3}, {:.3} to {:.3}; {}",
        ratio.median,
        ratio.least,
        ratio.most,
        all.join(" ")
    ));
}
