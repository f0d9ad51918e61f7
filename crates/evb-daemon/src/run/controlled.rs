//! A process that leads run after run and takes commands.

use std::{future::pending, path::Path, sync::Arc};

use evb::{
    role::TurnCounters,
    run_control::{Refusal, RunControl, State, Status},
};
use evb_config::{Config, ControlConfig, Origin, complain};

use super::{
    RunArguments, RunError,
    build::Shared,
    signals::Signals,
    summary::Publisher,
    system::{FromFile, THE_CONFIGURATION},
};
use crate::{
    control::{Server, ServerError},
    ctl::meaning,
    hooks::{Hooks, Look},
    service::Service,
};

/// Leads runs until a signal arrives. Returns the exit code of the run that the signal ended, or 0.
pub(super) async fn run(
    arguments: &RunArguments,
    first: (Arc<Config>, Origin),
    control: &ControlConfig,
    shared: Shared,
    publisher: Publisher,
) -> Result<u8, RunError> {
    let service = Service::from_environment(TurnCounters::default());
    let mut signals = Signals::new()?;
    let hooks = shared.hooks.clone();
    let system = FromFile::new(
        arguments.config.clone(),
        arguments.hosting(),
        first,
        Shared { turn_counters: service.turn_counters(), ..shared },
        publisher,
    );
    let lead = RunControl::new(system, control.autostart);
    let server = Server::start(lead.clone(), control, hooks.clone()).map_err(|error| match error {
        ServerError::Token(error) => RunError::Operator(error.to_string()),
        // The address may be free at the next attempt.
        ServerError::Listen { .. } => RunError::Supervisor(error.to_string()),
    })?;
    if !arguments.quiet {
        complain!("{}", invitation(&server.address().to_string(), &arguments.config));
    }
    // The task starts before any command can be given, so that it shows every state.
    let shown = (!arguments.quiet).then(|| tokio::spawn(show(lead.clone())));
    lead.configure().await.map_err(not_configured)?;
    let watched = tokio::spawn(watch(lead.clone(), hooks));
    let code = tokio::select! {
        code = until_closed(&lead, &mut signals, &service) => code,
        () = service.attend(|| line(lead.clone())) => 0,
    };
    watched.abort();
    if let Some(shown) = shown {
        shown.abort();
    }
    Ok(code)
}

/// Tells the hook `problem` of the problems of each run.
async fn watch(lead: RunControl, hooks: Hooks) {
    let look = || async {
        let Status { run, run_id, problems, .. } = lead.status().await.ok()?;
        Some(Look { run: run?, run_id: run_id?, problems })
    };
    hooks.watch(look).await;
}

/// Returns a line with the address of the web page, and with the command that shows the status
/// there; the usual address needs no option.
fn invitation(address: &str, config: &Path) -> String {
    let reach = if address == ControlConfig::USUAL {
        String::new()
    } else {
        format!(" --config {}", config.display())
    };
    format!("run control at http://{address}: open it in a browser, or try `evbd ctl{reach} status`")
}

/// Turns a refusal into the error that tells a service manager whether to try again. A wrong
/// configuration file stays wrong; an address or a journal that another process still holds may
/// become free.
fn not_configured(refusal: Refusal) -> RunError {
    match refusal.refused_by == THE_CONFIGURATION {
        true => RunError::Operator(refusal.to_string()),
        false => RunError::Supervisor(refusal.to_string()),
    }
}

/// Waits for a signal, and then for the end of the run under way.
async fn until_closed(lead: &RunControl, signals: &mut Signals, service: &Service) -> u8 {
    let mut watch = lead.watch();
    let mut hosting = lead.watch();
    tokio::select! {
        () = signals.next() => {}
        _ = watch.wait_for(|_| false) => {}
        () = async {
            // An error means that the leader has ended, which the other branch notices.
            if hosting.wait_for(|shown| shown.is_hosting).await.is_some() {
                service.ready();
            }
            pending::<()>().await;
        } => {}
    }
    service.stopping();
    let was_running =
        !matches!(watch.latest().state, State::Unconfigured | State::Configured | State::Failed);
    // An error means that the leader has ended already.
    let _ = lead.close("interrupted by a signal").await;
    tokio::select! {
        () = async { while watch.next().await.is_some() {} } => {}
        // It does not return again, but a second SIGINT ends the process in it.
        () = signals.next() => {}
    }
    let code = watch.latest().last_run.as_ref().map_or(0, |report| report.exit_code);
    if was_running { code } else { 0 }
}

/// Returns the state as a line for the service manager.
async fn line(lead: RunControl) -> String {
    let Ok(status) = lead.status().await else { return "ending: no further run begins".to_owned() };
    let run = status.run.map_or(String::new(), |run| format!(", run {run}"));
    let mut line = format!("{}{run}", status.state);
    if let Some(survey) = status.survey.filter(|survey| survey.running_s > 0.0) {
        let events = &survey.events;
        line += &format!(
            ": {} events complete, {} incomplete, {} lost, {:.0}/s",
            events.complete, events.incomplete, events.lost, status.rates.events_per_s
        );
    }
    if !status.waiting_for.is_empty() {
        line += &format!(", waiting for {}", status.waiting_for.join(", "));
    }
    line
}

/// Prints a line for each change of the system's state.
async fn show(lead: RunControl) {
    let mut shown = lead.watch();
    let (mut state_before, mut error_before) = (State::Unconfigured, None);
    loop {
        let (state, last_error) = {
            let shown = shown.see();
            (shown.state, shown.last_error.clone())
        };
        if state != state_before {
            let run = lead.status().await.ok().and_then(|status| status.run);
            let run = run.map_or(String::new(), |run| format!(", run {run}"));
            complain!("{}{run}{}", state, meaning(state.name()));
        }
        if last_error != error_before
            && let Some(error) = &last_error
        {
            complain!("  last error: {error}; `evbd ctl status` shows what else is wrong");
        }
        (state_before, error_before) = (state, last_error);
        if shown.next().await.is_none() {
            return;
        }
    }
}
