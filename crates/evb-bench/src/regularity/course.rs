//! The sequence of the study's runs, which all send to the same receiver.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use evb_core::{trigger::TriggerKind, units::Rate};
use evb_host::kernel;
use evb_net::{
    host,
    pacing::{Executor, Offload, Software, Transport, Trial, Txtime, cores, prove, spin_allowed},
};
use indicatif::ProgressBar;

use super::{
    RegularityArguments,
    judged::{self, Study},
    message::MessageSize,
    outcome::{self, Circumstances, RunOutcome},
    receiver::{Announcement, Arrivals, Connection},
    sender::{self, Sent, Stream, Way},
};
use crate::{cpu, output::BenchError};

/// An executor of departure times to measure, with its name.
struct Candidate {
    name: String,
    executor: Box<dyn Executor>,
}

/// A study in progress, with its connection to the receiver.
pub(super) struct Course<'a> {
    arguments: &'a RegularityArguments,
    connection: Connection,
    size: MessageSize,
    runs: Vec<RunOutcome>,
    remarks: Vec<String>,
    bar: ProgressBar,
}

impl<'a> Course<'a> {
    pub(super) fn open(arguments: &'a RegularityArguments, to: SocketAddr) -> Result<Self, BenchError> {
        let connection =
            Connection::open(to).map_err(BenchError::system(format!("cannot reach a receiver at {to}")))?;
        let size = MessageSize::new(arguments.message, to.is_ipv6());
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { arguments, connection, size, runs: Vec::new(), remarks: Vec::new(), bar })
    }

    /// Runs the whole study: first without shaping, then overload, then underload.
    pub(super) fn study(mut self) -> Result<Study, BenchError> {
        let candidates = self.candidates()?;
        let (poisson, gaussian) = self.kinds();
        let plain = Candidate { name: "at once".to_owned(), executor: Box::new(Software::timer()) };
        for kind in [gaussian, poisson] {
            self.run(&plain, Way::Unshaped(kind), 1, None)?;
        }
        let rate = self.arguments.rate;
        let overload = self.offered() / rate.bits_per_second() as f64;
        for round in 1..=self.arguments.rounds {
            for candidate in &candidates {
                if candidate.executor.offload() == Offload::Software {
                    self.run(candidate, Way::Bare(rate), round, None)?;
                }
                for kind in [gaussian, poisson] {
                    self.run(candidate, Way::Shaped(kind, rate), round, Some(overload))?;
                }
            }
        }
        for load in &self.arguments.loads {
            for candidate in &candidates {
                self.underload(candidate, *load, poisson)?;
            }
        }
        self.bar.finish_and_clear();
        let (overload, underload) = judged::judge(&self.runs);
        let setting = self.setting();
        let (runs, remarks) = (self.runs, self.remarks);
        Ok(Study { bench: "regularity", setting, tick_us: tick_us(), runs, overload, underload, remarks })
    }

    /// Repeats underload runs until a run agrees with theory or the number of rounds is reached.
    fn underload(&mut self, candidate: &Candidate, load: f64, kind: TriggerKind) -> Result<(), BenchError> {
        let rate = Rate::from_bits_per_second((self.offered() / load).round() as u64);
        for round in 1..=self.arguments.rounds {
            self.run(candidate, Way::Shaped(kind, rate), round, Some(load))?;
            if self.runs.last().and_then(|run| run.variation).is_some_and(|found| judged::agree(found, load))
            {
                break;
            }
        }
        Ok(())
    }

    fn candidates(&mut self) -> Result<Vec<Candidate>, BenchError> {
        let mut candidates = Vec::new();
        for name in &self.arguments.executors {
            let executor: Box<dyn Executor> = match name.as_str() {
                "timerfd" => Box::new(Software::timer()),
                "spin" => {
                    if let Err(refused) = spin_allowed(false, cores()) {
                        self.remarks.push(format!("spin is forced here: {refused}"));
                    }
                    Box::new(Software::spinning())
                }
                "txtime" => {
                    let from = self.connection.local().map_err(BenchError::system("the connection"))?.ip();
                    let to = self.connection.peer().ip();
                    let trial = Trial::new(Transport::Udp, from, to);
                    let proof = prove(Offload::Txtime, &trial);
                    if !proof.held {
                        self.remarks.push(format!("txtime is left out: {proof}"));
                        continue;
                    }
                    Box::new(Txtime)
                }
                other => {
                    let known = format!("there is no executor `{other}`; choose from timerfd, spin, txtime");
                    return Err(BenchError::Operator(known));
                }
            };
            candidates.push(Candidate { name: name.clone(), executor });
        }
        Ok(candidates)
    }

    fn kinds(&self) -> (TriggerKind, TriggerKind) {
        let rate = self.arguments.trigger_rate;
        (TriggerKind::Poisson { rate }, TriggerKind::Gaussian { rate, sigma: self.arguments.sigma })
    }

    /// Returns the rate that the triggers offer, in buffer bytes, as bit/s.
    fn offered(&self) -> f64 {
        self.arguments.trigger_rate.hertz() * self.size.buffer().count() as f64 * 8.0
    }

    fn run(
        &mut self,
        candidate: &Candidate,
        way: Way,
        round: u32,
        load: Option<f64>,
    ) -> Result<(), BenchError> {
        let underload = load.is_some_and(|load| load < 1.0);
        let messages = if underload { self.arguments.underload_messages } else { self.arguments.messages };
        // All executors get the same triggers within a round; each round has other triggers.
        let seed = self.arguments.seed.wrapping_add(u64::from(round) - 1);
        let run = self.runs.len() as u64 + 1;
        let stream = Stream { run, way, size: self.size, messages, seed };
        let of_load = load.map_or_else(String::new, |load| format!(" at load {load:.2}"));
        self.bar.set_message(format!("run {run}: {way} by {}{of_load}, {messages} messages", candidate.name));
        let (sent, arrivals, time, cpu) = self.transfer(candidate, &stream)?;
        let with = Circumstances { executor: &candidate.name, round, load, time, cpu };
        self.runs.push(outcome::outcome(&stream, with, &sent, &arrivals));
        Ok(())
    }

    /// Sends the messages in a separate thread, with real-time scheduling if that is requested and
    /// permitted.
    fn transfer(
        &mut self,
        candidate: &Candidate,
        stream: &Stream,
    ) -> Result<(Sent, Arrivals, Duration, Option<Duration>), BenchError> {
        let fault = BenchError::system;
        let announcement = Announcement { run: stream.run, messages: stream.messages, patience_ms: 1000 };
        let to = self.connection.announce(announcement).map_err(fault("the receiver"))?;
        let from = SocketAddr::new(self.connection.local().map_err(fault("the connection"))?.ip(), 0);
        let executor = candidate.executor.as_ref();
        let ordinary = self.arguments.ordinary_priority;
        let start = Instant::now();
        let sending = std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let promoted = if ordinary { Ok(()) } else { host::run_in_real_time() };
                let sent = sender::run(stream, executor, from, to);
                (promoted, sent, cpu::of_thread())
            });
            thread.join()
        });
        let Ok((promoted, sent, cpu)) = sending else {
            return Err(BenchError::Operator("the sending thread panicked".to_owned()));
        };
        let time = start.elapsed();
        if let Err(error) = promoted {
            let remark =
                format!("the sender runs at the priority of other programs, not in real time: {error}");
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        let arrivals = self.connection.arrivals().map_err(fault("the receiver"))?;
        Ok((sent.map_err(fault("sending"))?, arrivals, time, cpu))
    }

    fn setting(&self) -> String {
        let payload = self.arguments.trigger_rate.hertz() * self.size.payload.count() as f64 * 8.0;
        format!(
            "messages of {} payload ({} buffer bytes, {} line bytes); triggers at {}: {:.2} Mbit/s of payload, {:.2} Mbit/s of buffer \
             bytes, Gaussian sigma {:?}; overload: assigned {} of buffer bytes, {:.2} times that is offered; seed {}; {}",
            self.size.payload,
            self.size.buffer().count(),
            self.size.line().count(),
            self.arguments.trigger_rate,
            payload / 1e6,
            self.offered() / 1e6,
            self.arguments.sigma,
            self.arguments.rate,
            self.offered() / self.arguments.rate.bits_per_second() as f64,
            self.arguments.seed,
            match self.arguments.send_to {
                Some(to) => format!("to the receiver at {to}"),
                None => "over loopback".to_owned(),
            }
        )
    }
}

/// Returns the time between two timer ticks of this kernel, from the kernel's build configuration.
fn tick_us() -> Option<f64> {
    let built = |hz: &u32| kernel::has("no module", &format!("CONFIG_HZ_{hz}")) == Ok(true);
    [100, 250, 300, 1000].iter().find(|hz| built(hz)).map(|hz| 1e6 / f64::from(*hz))
}
