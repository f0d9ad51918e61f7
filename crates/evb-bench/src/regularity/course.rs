//! The sequence of the study's runs, which all send to the same receivers.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::trigger::times::TimesKind;
use evb_core::units::{Frequency, Rate};
use evb_host::kernel;
use evb_net::{host, pacing::Offload};
use indicatif::ProgressBar;

use super::{
    RegularityArguments, TriggerWord,
    executors::{self, Candidate},
    judged::{self, Panel, REGULAR, Study},
    message::MessageSize,
    namespace::KernelBuckets,
    outcome::{self, Circumstances, RunOutcome},
    receiver::{Announcement, Arrivals, Connection},
    sender::{self, Path, Sent, Shaper, Stream, Way},
    ticked::ON_TICKS,
};
use crate::{
    cpu,
    output::{self, BenchError},
};

/// A study in progress, with its connections to the receivers.
pub(super) struct Course<'a> {
    pub(super) arguments: &'a RegularityArguments,
    connections: Vec<Connection>,
    pub(super) size: MessageSize,
    runs: Vec<RunOutcome>,
    remarks: Vec<String>,
    bar: ProgressBar,
}

/// The results of one run: of the sender for each receiver, and of each receiver.
struct Transfer {
    sent: Vec<Sent>,
    arrivals: Vec<Arrivals>,
    time: Duration,
    cpu: Option<Duration>,
}

impl<'a> Course<'a> {
    pub(super) fn open(arguments: &'a RegularityArguments, to: &[SocketAddr]) -> Result<Self, BenchError> {
        let mut connections = Vec::new();
        for to in to {
            connections.push(Connection::open(*to).map_err(|error| {
                BenchError::Operator(format!(
                    "cannot reach a receiver at {to}: {error}; start one there with --listen"
                ))
            })?);
        }
        let size = MessageSize::new(arguments.message, to.iter().any(SocketAddr::is_ipv6));
        let bar = output::spinner();
        Ok(Self { arguments, connections, size, runs: Vec::new(), remarks: Vec::new(), bar })
    }

    /// Judges all runs, and draws histograms of them.
    pub(super) fn judged(self, panels: impl FnOnce(&[RunOutcome]) -> Vec<Panel>) -> Study {
        self.bar.finish_and_clear();
        let verdicts = judged::judge(&self.runs);
        let holds = verdicts.hold() && !self.runs.is_empty();
        let setting = self.setting();
        let panels = panels(&self.runs);
        let (runs, remarks) = (self.runs, self.remarks);
        Study {
            bench: "regularity",
            study: self.arguments.study.map(|_| "atlas"),
            setting,
            tick_us: tick_us(),
            runs,
            overload: verdicts.overload,
            passing: verdicts.passing,
            ticks: verdicts.ticks,
            underload: verdicts.underload,
            holds,
            panels,
            remarks,
        }
    }

    /// Runs the whole study: first without shaping, then overload, then underload.
    pub(super) fn general(&mut self) -> Result<(), BenchError> {
        let (rate, messages) = (self.arguments.rate, self.arguments.messages());
        let candidates = self.candidates()?;
        let kinds = self.kinds();
        for kind in &kinds {
            self.run(&Candidate::at_once(), Way::Unshaped(*kind), 1, None, messages)?;
        }
        for round in 1..=self.arguments.rounds {
            for candidate in &candidates {
                let in_software = candidate.executor.offload() == Offload::Software;
                if in_software && candidate.shaper == Shaper::Bucket {
                    self.run(candidate, Way::Bare(rate), round, None, messages)?;
                }
                for kind in &kinds {
                    let load = self.load(*kind);
                    self.run(candidate, Way::Shaped(*kind, rate), round, load, messages)?;
                }
            }
        }
        if !self.arguments.triggers.contains(&TriggerWord::Poisson) {
            self.remark("the underload runs, which need Poisson triggers, are left out");
            return Ok(());
        }
        for load in &self.arguments.loads {
            for candidate in candidates.iter().filter(|candidate| candidate.shaper.ticks().is_none()) {
                self.underload(candidate, *load)?;
            }
        }
        Ok(())
    }

    /// Repeats underload runs until a run agrees with theory or the number of rounds is reached.
    fn underload(&mut self, candidate: &Candidate, load: f64) -> Result<(), BenchError> {
        let trigger = self.arguments.fastest();
        let rate = Rate::from_bits_per_second((self.offered(trigger) / load).round() as u64);
        let (way, messages) =
            (Way::Shaped(TimesKind::Poisson { rate: trigger }, rate), self.arguments.underload_messages);
        self.repeat(candidate, way, Some(load), messages, |run| {
            run.variation.is_some_and(|found| judged::agree(found, load))
        })
    }

    /// Repeats a shaped run until it shows what the executor must show, for each receiver, or until
    /// the number of rounds is reached.
    pub(super) fn until_shown(&mut self, candidate: &Candidate, kind: TimesKind) -> Result<(), BenchError> {
        let (way, load) = (Way::Shaped(kind, self.arguments.rate), self.load(kind));
        self.repeat(candidate, way, load, self.arguments.messages(), |run| match run.ticks {
            Some(signs) => signs.on_ticks >= ON_TICKS,
            None => run.within_5_percent.is_some_and(|share| share >= REGULAR),
        })
    }

    fn repeat(
        &mut self,
        candidate: &Candidate,
        way: Way,
        load: Option<f64>,
        messages: u32,
        shown: impl Fn(&RunOutcome) -> bool,
    ) -> Result<(), BenchError> {
        for round in 1..=self.arguments.rounds {
            let before = self.runs.len();
            self.run(candidate, way, round, load, messages)?;
            if self.runs.iter().skip(before).all(&shown) {
                break;
            }
        }
        Ok(())
    }

    /// Sends triggered messages without shaping.
    pub(super) fn unshaped(&mut self, kind: TimesKind) -> Result<(), BenchError> {
        self.run(&Candidate::at_once(), Way::Unshaped(kind), 1, None, self.arguments.messages())
    }

    pub(super) fn candidates(&mut self) -> Result<Vec<Candidate>, BenchError> {
        let local = self.local(0)?.ip();
        let peer = self.connections.first().map_or(local, |connection| connection.peer().ip());
        executors::candidates(&self.arguments.executors(), (local, peer), &mut self.remarks)
    }

    fn remark(&mut self, remark: impl Into<String>) {
        let remark = remark.into();
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Returns all kinds of trigger at all trigger rates.
    fn kinds(&self) -> Vec<TimesKind> {
        let of = |rate: Frequency| {
            self.arguments.triggers.iter().map(move |word| word.kind(rate, self.arguments.sigma))
        };
        self.arguments.trigger_rates.iter().copied().flat_map(of).collect()
    }

    /// Returns the rate that triggers offer to each receiver, in buffer bytes, as bit/s.
    fn offered(&self, triggers: Frequency) -> f64 {
        triggers.hertz() * self.size.buffer().count() as f64 * 8.0
    }

    /// Returns the offered rate over the assigned rate.
    fn load(&self, kind: TimesKind) -> Option<f64> {
        let offered = Some(self.offered(kind.rate()));
        offered.map(|offered| offered / self.arguments.rate.bits_per_second() as f64)
    }

    fn run(
        &mut self,
        candidate: &Candidate,
        way: Way,
        round: u32,
        load: Option<f64>,
        messages: u32,
    ) -> Result<(), BenchError> {
        // All executors get the same triggers within a round; each round has other triggers.
        let seed = self.arguments.seed.wrapping_add(u64::from(round) - 1);
        let (shaper, depth) = (candidate.shaper, self.arguments.depth);
        let run = self.runs.len() as u64 + 1;
        let full_at_start = self.arguments.full_at_start;
        let stream = Stream { run, way, shaper, depth, full_at_start, size: self.size, messages, seed };
        let of_load = load.map_or_else(String::new, |load| format!(" at load {load:.2}"));
        self.bar.set_message(format!("run {run}: {way} by {}{of_load}, {messages} messages", candidate.name));
        let done = self.transfer(candidate, &stream)?;
        for (index, (sent, arrivals)) in done.sent.iter().zip(&done.arrivals).enumerate() {
            let receiver = index as u32 + 1;
            let (executor, time, cpu) = (candidate.name.as_str(), done.time, done.cpu);
            let with = Circumstances { executor, receiver, round, load, time, cpu };
            self.runs.push(outcome::outcome(&stream, with, sent, arrivals));
        }
        Ok(())
    }

    fn local(&self, receiver: usize) -> Result<SocketAddr, BenchError> {
        let gone = || BenchError::Operator("there is no receiver: report this fault of evb-bench".to_owned());
        let connection = self.connections.get(receiver).ok_or_else(gone)?;
        connection.local().map_err(BenchError::system("the connection to a receiver failed"))
    }

    /// Announces a run to all receivers; returns the paths of its messages.
    fn announce(&mut self, stream: &Stream) -> Result<Vec<Path>, BenchError> {
        // A receiver waits at least for five mean intervals before it gives up.
        let interval = stream.way.kind().map_or(0.0, |kind| kind.rate().period_nanos());
        let patience_ms = 1000 + (interval * 5.0 / 1e6) as u64;
        let announcement = Announcement { run: stream.run, messages: stream.messages, patience_ms };
        let mut paths = Vec::new();
        for receiver in 0..self.connections.len() {
            let from = SocketAddr::new(self.local(receiver)?.ip(), 0);
            let connection = &mut self.connections[receiver];
            let to = connection
                .announce(announcement)
                .map_err(BenchError::system("a receiver did not take the next run"))?;
            paths.push(Path { from, to });
        }
        Ok(paths)
    }

    /// Sends the messages in a separate thread, with real-time scheduling if that is requested and
    /// permitted.
    fn transfer(&mut self, candidate: &Candidate, stream: &Stream) -> Result<Transfer, BenchError> {
        let fault = BenchError::system;
        let paths = self.announce(stream)?;
        let buckets = match (stream.shaper, stream.way) {
            (Shaper::Kernel, Way::Shaped(_, rate)) => Some(KernelBuckets::install(&paths, stream, rate)?),
            _ => None,
        };
        let executor = candidate.executor.as_ref();
        let ordinary = self.arguments.ordinary_priority;
        let start = Instant::now();
        let sending = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let promoted = if ordinary { Ok(()) } else { host::run_in_real_time() };
                let sent = sender::run(stream, executor, &paths);
                (promoted, sent, cpu::of_thread())
            });
            thread.join()
        });
        let Ok((promoted, sent, cpu)) = sending else {
            return Err(BenchError::Operator(
                "the sending thread crashed: report this fault of evb-bench with the lines above".to_owned(),
            ));
        };
        let time = start.elapsed();
        if let Err(error) = promoted {
            self.remark(format!(
                "the sender runs at the priority of other programs, not in real time, so gaps may be less regular: {error}"
            ));
        }
        let mut arrivals = Vec::new();
        for connection in &mut self.connections {
            arrivals.push(connection.arrivals().map_err(fault("a receiver did not report the arrivals"))?);
        }
        // Messages may wait in the kernel's buckets until they have arrived.
        drop(buckets);
        Ok(Transfer { sent: sent.map_err(fault("sending"))?, arrivals, time, cpu })
    }

    fn setting(&self) -> String {
        let fastest = self.arguments.fastest();
        let payload = fastest.hertz() * self.size.payload.count() as f64 * 8.0;
        let rates: Vec<String> = self.arguments.rates().iter().map(ToString::to_string).collect();
        format!(
            "messages of {} payload ({} buffer bytes, {} line bytes); triggers at {}: at most {:.2} Mbit/s of payload, {:.2} Mbit/s of \
             buffer bytes, Gaussian sigma {:?}; overload: assigned {} of buffer bytes, {:.2} times that is offered; the bucket is {} at the \
             start; seed {}; {}",
            self.size.payload,
            self.size.buffer().count(),
            self.size.line().count(),
            rates.join(", "),
            payload / 1e6,
            self.offered(fastest) / 1e6,
            self.arguments.sigma,
            self.arguments.rate,
            self.offered(fastest) / self.arguments.rate.bits_per_second() as f64,
            if self.arguments.full_at_start { "full" } else { "empty" },
            self.arguments.seed,
            match self.arguments.send_to.as_slice() {
                [] if self.connections.len() == 1 => "over loopback to one receiver".to_owned(),
                [] => format!("over loopback to {} receivers", self.connections.len()),
                to => format!(
                    "to the receiver at {}",
                    to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                ),
            }
        )
    }
}

/// Returns the time between two timer ticks of this kernel, from the kernel's build configuration.
fn tick_us() -> Option<f64> {
    let built = |hz: &u32| kernel::has("no module", &format!("CONFIG_HZ_{hz}")) == Ok(true);
    [100, 250, 300, 1000].iter().find(|hz| built(hz)).map(|hz| 1e6 / f64::from(*hz))
}
