//! `run_starts`: the program for which a run waits before it begins, and which may stop it.

use std::sync::{Arc, atomic::Ordering};

use evb::supervisor::{CallEnd, RunStart, StartGate};
use evb_config::HooksConfig;
use evb_core::wire::control::plain;
use serde_json::json;

use super::{Hook, Hooks, calls::Call, lock, on_thread};
use crate::{inputs::Ending, program::ProgramError};

/// Exit code by which the program stops the beginning of a run.
const VETO: i32 = 3;

/// Number of characters of a reason that refusals and remarks contain.
const REASON: usize = 500;

impl Hooks {
    /// Returns the gate at which the next run asks whether it may begin; `None` without a program.
    pub(crate) fn gate(&self) -> Option<StartGate> {
        let config = self.configured(Hook::RunStarts)?;
        let (gate, mut starts) = StartGate::new();
        let hooks = self.clone();
        let started = on_thread(Hook::RunStarts, async move {
            loop {
                let start = tokio::select! {
                    start = starts.recv() => start,
                    () = hooks.ends(Ending::Soon) => None,
                };
                let Some(start) = start else { break };
                hooks.ask(Arc::clone(&config), start).await;
            }
        });
        match started {
            Ok(end) => lock(&self.0.queues).join(end),
            Err(error) => {
                self.drop_call(Hook::RunStarts, &format!("the operating system refused a thread: {error}"));
            }
        }
        Some(gate)
    }

    /// Lets the program say whether the run may begin.
    async fn ask(&self, config: Arc<HooksConfig>, mut start: RunStart) {
        let (hook, run) = (Hook::RunStarts, start.run.number());
        let input = json!({
            "hook": hook.name(),
            "run": run,
            "run_id": start.id.to_string(),
            "begin": start.begin,
            "annotation": start.annotation,
        });
        let call = Call { config, run, about: format!("run {run}"), input };
        let state = self.state(hook);
        state.called.fetch_add(1, Ordering::Relaxed);
        let limit = call.config.timeout;
        tracing::info!(
            "run {run} waits for the hook run_starts, for {} at most",
            evb_core::quantities::time(limit)
        );
        let stop = async {
            tokio::select! {
                () = start.given_up() => {}
                () = self.stopped() => {}
            }
        };
        let Err(error) = call.attempt(hook, stop).await else {
            state.succeeded.fetch_add(1, Ordering::Relaxed);
            self.record(hook, &call, CallEnd::Succeeded, "");
            return start.answer(Ok(None));
        };
        if matches!(error, ProgramError::Cancelled) {
            state.dropped.fetch_add(1, Ordering::Relaxed);
            self.record(hook, &call, CallEnd::Dropped, &error.to_string());
            return tracing::info!(
                "run {run} does not wait for the hook run_starts any more, as its start was given up, or this process ends: nothing needs to be done"
            );
        }
        if let ProgramError::Exit { code: VETO, said } = &error {
            state.succeeded.fetch_add(1, Ordering::Relaxed);
            let program = hook.words(&call.config).and_then(<[_]>::first).map_or("", String::as_str);
            let why = if said.is_empty() { ", and did not say why" } else { said.as_str() };
            let reason =
                format!("the program {} has refused the run (exit code {VETO}){why}", program.escape_debug());
            let reason = plain(&reason, REASON);
            self.record(hook, &call, CallEnd::Vetoed, &error.to_string());
            return start.answer(Err(reason));
        }
        state.failed.fetch_add(1, Ordering::Relaxed);
        let reason = format!("the program of the hook run_starts {error}");
        self.note_failure(hook, &reason);
        self.record(hook, &call, CallEnd::Failed, &reason);
        let remark = format!("{reason}; the run began all the same: correct the program before the next run");
        start.answer(Ok(Some(plain(&remark, REASON))));
    }
}
