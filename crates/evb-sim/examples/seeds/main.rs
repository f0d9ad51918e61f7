//! Simulates whole systems with random faults, one for each seed, and reports checks that fail.
//! `cargo xtask seeds` runs this program.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this program uses a clock, threads and files; only the simulations must not"
)]

mod summary;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use evb_sim::{
    Transport,
    system::{Outcome, Scenario, run, shrink},
};

use summary::Summary;

#[derive(Parser)]
#[command(name = "cargo xtask seeds", about = "Simulates whole systems with random faults")]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of seeds.
    #[arg(long)]
    count: Option<u64>,
    /// Minutes after which no simulation of a further seed is started.
    #[arg(long)]
    minutes: Option<f64>,
    /// Transport of the lanes.
    #[arg(long, value_enum, default_value_t = Over::Both)]
    transport: Over,
    /// Number of seeds that are simulated at the same time; by default the number of processor
    /// cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Print every step of the simulation.
    #[arg(long)]
    trace: bool,
    /// Keep only the faults at these positions of the scenario's list; with `none`, no fault.
    #[arg(long, value_delimiter = ',')]
    faults: Option<Vec<String>>,
    /// Continue with further seeds after one has failed.
    #[arg(long)]
    keep_going: bool,
    /// Do not reduce a failing scenario to a smaller one.
    #[arg(long)]
    no_shrink: bool,
    /// Write the summary as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    Tcp,
    Udp,
    Both,
}

impl Over {
    const fn transport(self) -> Option<Transport> {
        match self {
            Self::Tcp => Some(Transport::Tcp),
            Self::Udp => Some(Transport::Udp),
            Self::Both => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Both => "both",
        }
    }
}

/// Interval at which progress is shown.
const PROGRESS: Duration = Duration::from_secs(10);

/// Default number of seeds.
const COUNT: u64 = 300;

fn main() -> ExitCode {
    // The message of a panic is reported later, together with the seed, so it is not printed here.
    std::panic::set_hook(Box::new(|_| {}));
    match work(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs all seeds; returns true if no check failed.
fn work(args: &Args) -> Result<bool> {
    let began = Instant::now();
    let summary = simulate(args, began);
    finish(args, &summary, began.elapsed())
}

/// Simulates all seeds, or those up to the first failure.
fn simulate(args: &Args, began: Instant) -> Summary {
    let count =
        args.count.unwrap_or_else(|| if args.minutes.is_some() { u64::MAX - args.from } else { COUNT });
    let end = args.from.saturating_add(count);
    let until = args.minutes.map(|minutes| began + Duration::from_secs_f64(60.0 * minutes));
    let threads = args.threads.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (next, stop) = (AtomicU64::new(args.from), AtomicBool::new(false));
    let summary = Mutex::new(Summary::new(args.from, args.transport.word()));
    let (say, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let say = say.clone();
            let (next, stop, summary) = (&next, &stop, &summary);
            scope.spawn(move || {
                let is_time = || until.is_none_or(|until| Instant::now() < until);
                while !stop.load(Ordering::Relaxed) && is_time() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let outcome = run(&scenario(args, seed), args.trace);
                    if outcome.failure.is_some() && !args.keep_going {
                        stop.store(true, Ordering::Relaxed);
                    }
                    summary.lock().unwrap_or_else(PoisonError::into_inner).add(seed, outcome);
                }
                drop(say);
            });
        }
        drop::<mpsc::Sender<()>>(say);
        while done.recv_timeout(PROGRESS) == Err(mpsc::RecvTimeoutError::Timeout) {
            let line = summary.lock().unwrap_or_else(PoisonError::into_inner).progress(began.elapsed());
            eprintln!("{line}");
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn scenario(args: &Args, seed: u64) -> Scenario {
    let mut scenario = Scenario::of_seed(seed, args.transport.transport());
    if let Some(faults) = &args.faults {
        let kept: BTreeMap<usize, ()> =
            faults.iter().filter_map(|one| Some((one.parse().ok()?, ()))).collect();
        let mut index = 0..;
        scenario.faults.retain(|_| index.next().is_some_and(|index| kept.contains_key(&index)));
    }
    scenario
}

fn finish(args: &Args, summary: &Summary, took: Duration) -> Result<bool> {
    for (seed, outcome) in &summary.failures {
        tell(args, *seed, outcome);
    }
    if args.trace {
        summary.lines.iter().for_each(|line| println!("{line}"));
    }
    print!("{}", summary.show(took));
    if let Some(path) = &args.out {
        std::fs::write(path, summary.json(took))
            .with_context(|| format!("cannot write {}; give another --out", path.display()))?;
    }
    Ok(summary.failures.is_empty())
}

/// Prints a failed check, the command that repeats it, and a smaller scenario in which it still
/// fails.
fn tell(args: &Args, seed: u64, outcome: &Outcome) {
    let Some(failure) = &outcome.failure else { return };
    println!("seed {seed} failed the check {failure}");
    let whole = scenario(args, seed);
    let transport = args.transport.word();
    println!("  this repeats it: cargo xtask seeds --from {seed} --count 1 --transport {transport} --trace");
    if args.no_shrink {
        return;
    }
    let (small, of_small) = shrink(&whole, failure.check);
    if let Some(failure) = of_small.and_then(|outcome| outcome.failure) {
        println!("  a smaller scenario fails in the same way: {failure}");
    }
    println!("  {}", summary::describe(&small));
    small.faults.iter().for_each(|planned| println!("    {planned}"));
}
