//! [`Caller`]: calls the program of one hook, one call after another, and again if it fails.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use evb::supervisor::CallEnd;
use evb_config::HooksConfig;
use evb_core::quantities::time;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{Hook, Hooks};
use crate::{
    inputs::Ending,
    program::{Program, ProgramError},
};

/// Pauses before a failed program is called again.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// Niceness of the threads of hooks and of their programs, the lowest priority that there is.
const NICE: i32 = 19;

/// A call of a program.
pub(super) struct Call {
    pub(super) config: Arc<HooksConfig>,
    pub(super) run: u32,
    /// Subject of the call, for the log.
    pub(super) about: String,
    pub(super) input: Value,
}

/// Calls the program of a hook.
pub(super) struct Caller {
    hook: Hook,
    hooks: Hooks,
}

impl Caller {
    pub(super) fn new(hook: Hook, hooks: Hooks) -> Self {
        Self { hook, hooks }
    }

    /// Calls the program for each call of the queue, until the queue is closed and empty. At the
    /// end of the process, the first program that exceeds its time limit is the last one, and after
    /// another failure each call has one attempt, so that a broken program does not delay the end.
    pub(super) async fn answer(&self, mut calls: mpsc::Receiver<Call>) {
        // An error leaves the priority as it is.
        let _ = rustix::process::setpriority_process(None, NICE);
        let (mut is_last, mut pauses) = (false, &PAUSES[..]);
        while let Some(call) = calls.recv().await {
            let ending = *self.hooks.0.ending.borrow();
            if is_last || ending == Ending::Now {
                let reason = format!("this process ends before the call for {}", call.about);
                self.hooks.record(self.hook, &call, CallEnd::Dropped, &reason);
                self.hooks.drop_call(self.hook, &reason);
                continue;
            }
            let state = self.hooks.state(self.hook);
            match self.carry_out(call, pauses).await {
                Ok(()) => state.succeeded.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    if *self.hooks.0.ending.borrow() != Ending::No {
                        (is_last, pauses) = (matches!(error, ProgramError::TimeOver { .. }), &[]);
                    }
                    state.failed.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    }

    /// Calls the program until it succeeds, and after each of the pauses once more. Returns the
    /// last error of the program.
    async fn carry_out(&self, call: Call, pauses: &[Duration]) -> Result<(), ProgramError> {
        let (name, about) = (self.hook.name(), call.about.clone());
        let mut pauses = pauses.iter();
        loop {
            let began = Instant::now();
            let Err(error) = call.attempt(self.hook, self.hooks.stopped()).await else {
                let took = time(began.elapsed());
                tracing::info!(hook = name, "hook {name} for {about} has succeeded in {took}");
                self.hooks.record(self.hook, &call, CallEnd::Succeeded, "");
                return Ok(());
            };
            let program = self.hook.words(&call.config).and_then(<[_]>::first).map_or("", String::as_str);
            let reason = format!("the program {} {error}", program.escape_debug());
            let pause = pauses.next().filter(|_| !matches!(error, ProgramError::Cancelled));
            let Some(pause) = pause else {
                self.tell_failure(&about, &reason, &call.input);
                self.hooks.record(self.hook, &call, CallEnd::Failed, &reason);
                return Err(error);
            };
            let next = time(*pause);
            tracing::info!(hook = name, "hook {name} for {about}: {reason}; evbd calls it again in {next}");
            tokio::select! {
                () = sleep(*pause) => {}
                () = self.hooks.stopped() => {}
            }
        }
    }

    /// Notes and logs a call that has failed, with the input that its program was given.
    fn tell_failure(&self, about: &str, reason: &str, input: &Value) {
        let name = self.hook.name();
        self.hooks.note_failure(self.hook, &format!("{about}: {reason}"));
        tracing::warn!(
            hook = name,
            %input,
            "hook {name} for {about} has failed: {reason}; no event is affected: correct the program, and do its work by hand"
        );
    }
}

impl Call {
    /// Calls the program of a hook once, and ends it when `stop` is ready.
    pub(super) async fn attempt(
        &self,
        hook: Hook,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ProgramError> {
        let Self { config, run, about, input } = self;
        let part = format!("hook {} for {about}", hook.name());
        let variables = [("EVB_HOOK", hook.name().to_owned()), ("EVB_RUN", run.to_string())];
        let words = hook.words(config).unwrap_or_default();
        let program = Program { words, part: &part, variables: &variables };
        program.run(input, config.timeout, stop).await
    }
}
