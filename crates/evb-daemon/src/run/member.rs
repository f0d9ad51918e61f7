//! A process with sources and builders only, which join run after run under the supervisor of
//! another process.

use std::{future::ready, sync::Arc, time::Duration};

use evb::role::TurnCounters;
use evb_config::{Config, Origin, check};
use evb_core::id::Peer;
use evb_host::memory::machine_memory;
use tokio::sync::watch;

use super::{
    RunArguments, RunError,
    build::Shared,
    host::{Ended, Host},
    roles,
    signals::Signals,
    summary::Publisher,
};
use crate::service::Service;

/// Time for which the supervisor may be unreachable: practically without limit.
const PATIENCE: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Pause after a failed run, so that a lasting cause of failure does not use up a core and fill the
/// log.
const RESPITE: Duration = Duration::from_secs(1);

/// The hosted roles, according to the last valid configuration.
struct HostedRoles {
    config: Arc<Config>,
    hosted: Vec<Peer>,
    shared: Shared,
}

impl HostedRoles {
    fn of(
        (config, origin): (Arc<Config>, Origin),
        shared: Shared,
        arguments: &RunArguments,
    ) -> Result<Self, RunError> {
        let hosted = roles::hosted(&arguments.hosting(), &config, &origin)?;
        let shared = shared.prove(&config, &hosted)?;
        Ok(Self::new(config, hosted, shared))
    }

    fn new(mut config: Arc<Config>, hosted: Vec<Peer>, shared: Shared) -> Self {
        Arc::make_mut(&mut config).supervisor.start_timeout = PATIENCE;
        Self { config, hosted, shared: Shared { is_controlled: true, ..shared } }
    }

    /// Reads the configuration file again, which may have changed. An invalid file has no effect.
    fn renew(&mut self, arguments: &RunArguments) {
        let renewed = match check::admit(&arguments.config, machine_memory()) {
            Ok(admitted) => {
                let read = (Arc::new(admitted.config), admitted.origin);
                Self::of(read, self.shared.clone(), arguments)
            }
            Err(error) => Err(RunError::Operator(error.to_string())),
        };
        match renewed {
            Ok(part) => *self = part,
            Err(error) => {
                tracing::warn!(%error, "the configuration {} cannot be used any more, so this process goes on with the one that it read before; correct the file, which it reads again after each run: {error}", arguments.config.display())
            }
        }
    }
}

/// Joins run after run until a signal. Returns the exit code of the interrupted run, or 0.
pub(super) async fn run(
    arguments: &RunArguments,
    config: Arc<Config>,
    hosted: Vec<Peer>,
    shared: Shared,
    publisher: Publisher,
) -> Result<u8, RunError> {
    let service = Service::from_environment(TurnCounters::default());
    let part = HostedRoles::new(config, hosted, Shared { turn_counters: service.turn_counters(), ..shared });
    let (say, said) = watch::channel("waiting for the supervisor");
    tokio::select! {
        code = take_part(arguments, part, &publisher, &service, &say) => code,
        () = service.attend(|| ready((*said.borrow()).to_owned())) => Ok(0),
    }
}

/// Takes part in one run after the other, until a signal asks for the end. Returns the exit code.
async fn take_part(
    arguments: &RunArguments,
    mut part: HostedRoles,
    publisher: &Publisher,
    service: &Service,
    say: &watch::Sender<&'static str>,
) -> Result<u8, RunError> {
    let mut signals = Signals::new()?;
    loop {
        say.send_replace("waiting for the supervisor");
        let mut host = Host::start(Arc::clone(&part.config), &part.hosted, part.shared.clone()).await?;
        let joined = tokio::select! {
            joined = host.join_all() => joined,
            () = signals.next() => {
                service.stopping();
                return Ok(0);
            }
        };
        let mut stopping = false;
        let ended = match joined {
            Ok(()) => {
                service.ready();
                say.send_replace("taking part in a run, whose progress the supervisor's process shows");
                loop {
                    tokio::select! {
                        ended = host.outcome() => break ended,
                        () = signals.next() => {
                            stopping = true;
                            service.stopping();
                            host.stop("interrupted by a signal").await;
                        }
                    }
                }
            }
            Err(error) => Err(error),
        };
        let code = match &ended {
            // If all hosts are stopped at once, the supervisor closes a run that has not begun;
            // this is not a failure.
            Ok(ended) if stopping && ended.never_began() => 0,
            Ok(ended @ Ended::Part(_)) => publisher.publish_end(ended).unwrap_or_else(|error| {
                tracing::warn!(%error, "{error}");
                1
            }),
            Ok(Ended::Closed(report)) => report.exit_code,
            // Leaving before the run has begun ends the connection, which is not a failure.
            Err(_) if stopping => 0,
            Err(error) => {
                tracing::warn!(%error, "this process could not take part in a run to its end, and joins the next one by itself; if this line comes again with the next run, act on its cause: {error}");
                tokio::time::sleep(RESPITE).await;
                1
            }
        };
        if stopping {
            return Ok(code);
        }
        part.renew(arguments);
    }
}
