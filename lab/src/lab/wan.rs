//! A bad wide-area line between sources and builder: at 20 Mbit/s, it loses, repeats, reorders,
//! delays and corrupts packets. Lanes run over TCP and over UDP, one after the other, and builders
//! check every byte. The kernel's queueing discipline netem impairs the line. The host's kernel may
//! lack netem, so the whole scenario runs under User-Mode Linux.

mod table;
#[cfg(test)]
mod tests;

use anyhow::Result;
use lab_base::{
    bench::Bench,
    interrupt,
    line::{Line, LineCount},
    network::{Network, Shape},
    report::{Bound, Report},
    system::{Mode, System, Transport},
};

use self::table::{Row, Table};
use super::LabArgs;

const RATE: u64 = 20_000_000;
const SOURCES: u16 = 4;
const FRAGMENT: u64 = 16_000;
/// Number of outstanding events: their data take about 0.4 s over the line.
const SLOTS: u32 = 16;
/// Number of outstanding events with a round trip of 198 ms; each event takes four one-way delays
/// of 99 ms, for announcement, grant, data and commit.
const LONG_SLOTS: u32 = 64;
/// Port buffer in front of a line without long delay, in bytes, from which evbd derives the budget.
const PORT: u64 = 128 * 1024;
/// Port buffer in front of a line to the other side of the world, in bytes: larger than the budget,
/// as in routers at such lines.
const DEEP_PORT: u64 = 1024 * 1024;
/// Budget of the builder with a round trip of 198 ms, in bytes: the 495 kB that 20 Mbit/s carry in
/// 198 ms, and a fifth more for data that wait in queues.
const LONG_BUDGET: u64 = 600_000;
/// Duration of a run in the short version of CI, in seconds.
const SHORT_SECONDS: f64 = 2.0;
/// Least number of damaged datagrams that evb's own checksum must have detected, if the UDP
/// checksum is removed.
const DAMAGED: f64 = 100.0;

/// An impairment of the line, the same in both directions.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Label of the case in the figure.
    word: &'static str,
    /// The impairment in the notation of `tc … netem`.
    line: &'static str,
    /// True if the round trip takes 198 ms.
    is_long: bool,
    /// True if the UDP checksum is removed behind the line, so that the receiving kernel does not
    /// detect damage.
    is_blind: bool,
    /// True if the case is part of the short version of CI.
    in_short: bool,
}

const fn case(name: &'static str, word: &'static str, line: &'static str) -> Case {
    Case { name, word, line, is_long: false, is_blind: false, in_short: true }
}

const CASES: [Case; 10] = [
    case("clean", "clean", ""),
    case("burst loss 1 %", "bursts", "loss gemodel 0.2% 20%"),
    Case { in_short: false, ..case("loss 1 %", "losses", "loss random 1%") },
    case("duplication 3 %", "copies", "duplicate 3%"),
    case("reordering 25 %", "reordered", "delay 10ms reorder 25% 50%"),
    case("jitter 1-20 ms", "jitter", "delay 10500us 9500us"),
    Case { in_short: false, ..case("corruption 1 %", "damage", "corrupt 1%") },
    Case { is_blind: true, ..case("corruption unseen", "unseen", "corrupt 1%") },
    Case { is_long: true, ..case("198 ms", "198 ms", "delay 99ms") },
    Case {
        is_long: true,
        in_short: false,
        ..case("198 ms, loss 0.1 %", "… and loss", "delay 99ms loss random 0.1%")
    },
];

/// Runs this scenario under User-Mode Linux, and returns its exit code, or that of a skipped test.
pub(super) fn elsewhere(args: &LabArgs, is_short: bool) -> Result<u8> {
    // Besides its duration, a run needs time for start and drain, and for a timeout if it fails.
    let limit = 120.0 + CASES.len() as f64 * 2.0 * (2.0 * args.seconds + 15.0);
    args.elsewhere(if is_short { &["wan", "--short"] } else { &["wan"] }, limit)
}

/// Runs all cases on the current kernel.
pub(super) fn run(bench: &Bench, is_short: bool) -> Result<Report> {
    let mut report = Report::bare("wan");
    let mut table = Table::default();
    println!("{}", Row::header());
    for is_long in [false, true] {
        let wanted =
            |case: &&Case| case.is_long == is_long && bench.wants(case.name) && (case.in_short || !is_short);
        let cases: Vec<&Case> = CASES.iter().filter(wanted).collect();
        if !cases.is_empty() {
            let network = Network::up(shape(is_long))?;
            let line = Line::lay(&network, "b1")?;
            for case in cases {
                run_case(bench, &line, case, is_short, &mut table, &mut report)?;
            }
        }
    }
    table.publish(&bench.out, &mut report)?;
    Ok(report)
}

fn run_case(
    bench: &Bench,
    line: &Line<'_>,
    case: &Case,
    is_short: bool,
    table: &mut Table,
    report: &mut Report,
) -> Result<()> {
    line.impair(case.line)?;
    if case.is_blind {
        line.remove_checksums()?;
    }
    // Without checksums only UDP is tested, because over TCP evb relies on the kernel's checksum.
    let transports: &[Transport] =
        if is_short || case.is_blind { &[Transport::Udp] } else { &[Transport::Tcp, Transport::Udp] };
    let seconds = if is_short { SHORT_SECONDS } else { bench.seconds };
    let seconds = if case.is_long { seconds * 2.0 } else { seconds };
    let bench =
        Bench { seconds, out: bench.out.clone(), evbd: bench.evbd.clone(), only: String::new(), ..*bench };
    for transport in transports {
        interrupt::check()?;
        measure(&bench, line, case, *transport, table, report)?;
    }
    Ok(())
}

fn shape(is_long: bool) -> Shape {
    let port_buffer = if is_long { DEEP_PORT } else { PORT };
    Shape { sources: SOURCES, builders: 1, rate: RATE, port_buffer, ..Shape::PLAIN }
}

fn system(case: &Case, transport: Transport) -> System {
    let system = System::new(Mode::Credit, FRAGMENT).over(transport).checked();
    if case.is_long { system.slots(LONG_SLOTS).budget(LONG_BUDGET) } else { system.slots(SLOTS) }
}

fn measure(
    bench: &Bench,
    line: &Line<'_>,
    case: &Case,
    transport: Transport,
    table: &mut Table,
    report: &mut Report,
) -> Result<()> {
    let name = format!("{} {}", case.name, transport.word());
    let before = line.count()?;
    let outcome = match bench.run(line.network(), &name, system(case, transport)) {
        Ok(outcome) => outcome,
        // A failed case does not stop the scenario, because the results of the other cases are
        // still useful.
        Err(error) => {
            interrupt::check()?;
            println!("{name}: {error:#}");
            report.yes(&format!("{name}: ends by itself"), false);
            return Ok(());
        }
    };
    let row = Row::new(case, &outcome, line.count()?.since(before));
    println!("{}", row.text());
    report.keep(&outcome);
    report.yes(&format!("{name}: every event complete, every byte right"), row.is_whole());
    if case.is_blind {
        let least = if bench.seconds > SHORT_SECONDS { DAMAGED } else { 1.0 };
        report.holds(
            &format!("{name}: damaged datagrams that our check found"),
            row.damaged(),
            Bound::AtLeast(least),
        );
    }
    table.rows.push(row);
    Ok(())
}
