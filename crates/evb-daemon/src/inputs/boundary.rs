//! [`Boundary`]: what is done with a source's boards when a run starts, and after its end.

use std::{cell::Cell, future::Future, time::Duration};

use evb::{
    input::BoardWriter,
    source::{Beginning, FrontEnds, Source},
};
use evb_config::{Action, Hook, Hooks, SourceEntry};
use evb_core::{
    id::{RunId, RunNumber},
    quantities::time,
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

use crate::program::{GRACE, Program};

/// The end of the process, as its inputs must know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// The process goes on.
    #[default]
    No,
    /// The process ends when what follows the last run is done.
    Soon,
    /// The process does not wait for programs any more.
    Now,
}

/// The actions with a source's boards when a run starts, and after its end.
pub(super) struct Boundary {
    hooks: Hooks,
    source: u16,
    name: Option<String>,
    ending: watch::Receiver<Ending>,
    writer: Option<BoardWriter>,
    beginnings: Option<mpsc::Receiver<Beginning>>,
}

/// A run, for programs.
type Run = (RunNumber, RunId);

impl Boundary {
    /// Creates the boundary of a source's runs, with the hooks of its input.
    pub(super) fn new(entry: &SourceEntry, ending: watch::Receiver<Ending>) -> Self {
        Self {
            hooks: entry.hooks.clone(),
            source: entry.id.number(),
            name: entry.name.clone(),
            ending,
            writer: None,
            beginnings: None,
        }
    }

    pub(super) fn with_writer(self, writer: BoardWriter) -> Self {
        Self { writer: Some(writer), ..self }
    }

    /// Lets the runs of a source with these front ends wait for `on_start`.
    pub(super) fn attend(&mut self, front_ends: Option<&FrontEnds>) {
        if self.hooks != Hooks::default() {
            self.beginnings = front_ends.and_then(FrontEnds::beginnings);
        }
    }

    /// Returns the longest time that is needed after the end of a run; `None` if nothing is done.
    pub(super) fn longest_stop(&self) -> Option<Duration> {
        let stop = || self.hooks.on_stop.as_ref().map_or(Duration::ZERO, |hook| hook.timeout);
        self.beginnings.is_some().then(|| stop() + GRACE * 2)
    }

    /// Feeds the source until its part in the run is over, and does what the boundaries of the run
    /// require.
    pub(super) async fn around(mut self, source: Source, feed: impl Future<Output = ()>) {
        let Some(mut beginnings) = self.beginnings.take() else { return feed.await };
        let is_over = watch::Sender::new(false);
        let started = Cell::new(None);
        let feeding = async {
            tokio::select! {
                () = feed => {}
                () = self.ends(Ending::Soon) => {}
            }
            is_over.send_replace(true);
        };
        let starting = async {
            let mut over = is_over.subscribe();
            loop {
                let beginning = tokio::select! {
                    biased;
                    _ = over.wait_for(|is_over| *is_over) => break,
                    beginning = beginnings.recv() => beginning,
                };
                let Some(beginning) = beginning else { break };
                let run = (beginning.run, beginning.id);
                if self.start(beginning, is_over.subscribe()).await {
                    started.set(Some(run));
                }
            }
        };
        tokio::join!(feeding, starting);
        let Some(run) = started.take() else { return };
        // Only looks whether the run has ended, and does not wait for its end.
        let reason = tokio::select! {
            biased;
            outcome = source.finished() => match outcome {
                Ok(outcome) => outcome.verdict,
                Err(error) => error.to_string(),
            },
            () = std::future::ready(()) => "this process ends".to_owned(),
        };
        self.stop(run, &reason).await;
    }

    /// Does what the start of a run requires. Returns true if it has succeeded.
    async fn start(&self, mut beginning: Beginning, mut over: watch::Receiver<bool>) -> bool {
        let done = match &self.hooks.on_start {
            None => Ok(()),
            Some(hook) => {
                let input = self.input((beginning.run, beginning.id), "start");
                let given_up = async {
                    tokio::select! {
                        () = beginning.given_up() => {}
                        _ = over.wait_for(|is_over| *is_over) => {}
                    }
                };
                self.carry_out("on_start", hook, &input, given_up).await
            }
        };
        if let Err(reason) = &done
            && !beginning.is_given_up()
        {
            tracing::warn!(
                source = self.source,
                "run {} does not begin with this source: {reason}; correct that, and start the run again",
                beginning.run
            );
        }
        let has_started = done.is_ok();
        beginning.answer(done);
        has_started
    }

    /// Does what the end of a run requires.
    async fn stop(&self, run: Run, reason: &str) {
        let Some(hook) = &self.hooks.on_stop else { return };
        let (number, _) = run;
        let mut input = self.input(run, "stop");
        input["reason"] = reason.into();
        if let Err(reason) = self.carry_out("on_stop", hook, &input, self.ends(Ending::Now)).await {
            tracing::warn!(
                source = self.source,
                "{reason}; run {} has ended and is not affected: correct that, or look at the board, before the next run",
                number
            );
        }
    }

    /// Runs a program, or tells the board. Returns the reason why it failed.
    async fn carry_out(
        &self,
        key: &str,
        hook: &Hook,
        input: &Value,
        cancel: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let (Hook { action, timeout: limit }, source) = (hook, self.source);
        let part = format!("{key} of source {source}");
        tracing::info!(
            source,
            "waiting for {part} ({action}, within {}); nothing needs to be done meanwhile",
            time(*limit)
        );
        let began = Instant::now();
        let done = match action {
            Action::Run(words) => {
                let number = |value: &Value| value.to_string();
                let variables =
                    [("EVB_RUN", number(&input["run"])), ("EVB_SOURCE", number(&input["source"]))];
                let program = Program { words, part: &part, variables: &variables };
                let ran = program.run(input, *limit, cancel).await;
                ran.map_err(|error| format!("the program {} {error}", words[0].escape_debug()))
            }
            Action::Send(bytes) => tokio::select! {
                sent = self.send(bytes, *limit) => sent,
                () = cancel => Err("it was given up".to_owned()),
            },
        };
        match done {
            Ok(()) => {
                tracing::info!(
                    source,
                    "{part} has succeeded in {}; nothing needs to be done",
                    time(began.elapsed())
                );
                Ok(())
            }
            Err(reason) => Err(format!("{key} failed: {reason}")),
        }
    }

    /// Sends bytes to the board within the limit, or says why not.
    async fn send(&self, bytes: &[u8], limit: Duration) -> Result<(), String> {
        let Some(writer) = &self.writer else { return Err("this input has no board to send to".to_owned()) };
        match timeout(limit, writer.send(bytes)).await {
            Ok(sent) => sent.map_err(|error| format!("the board takes no bytes: {error}")),
            Err(_) if writer.is_connected() => {
                Err(format!("the board has not taken the bytes within {}", time(limit)))
            }
            Err(_) => Err(format!("the board has not been connected for {}", time(limit))),
        }
    }

    /// Returns what programs are told of a run.
    fn input(&self, (run, id): Run, what: &str) -> Value {
        json!({
            "what": what,
            "run": run.number(),
            "run_id": id.to_string(),
            "source": self.source,
            "name": self.name,
        })
    }

    /// Waits until the process ends.
    async fn ends(&self, ending: Ending) {
        let mut watched = self.ending.clone();
        if watched.wait_for(|known| *known >= ending).await.is_err() {
            std::future::pending().await
        }
    }
}
