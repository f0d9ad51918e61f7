//! `evb-bench trigger`: a pseudo-trigger, which announces triggers over the network.

pub(crate) mod times;
mod kind;
mod link;
mod summary;

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    process::ExitCode,
    time::Duration,
};

use evb::trigger_feed::TriggerFeed;
use evb_config::{check::BAD_CONFIGURATION, complain, say, say_in_line};
use evb_core::units::parse_duration;
use evb_net::clock;
use tokio::signal::unix::{SignalKind, signal};

use self::{kind::KindArguments, summary::Summary, times::Times};

/// Arguments of `evb-bench trigger`.
#[derive(clap::Args, Debug)]
pub(super) struct TriggerArguments {
    /// The multicast group, or the host at which a supervisor listens, and the port.
    #[arg(long, value_name = "GROUP:PORT|HOST:PORT")]
    to: String,
    /// The network interface for a multicast group, by its IPv4 address or its name.
    #[arg(long, value_name = "ADDRESS|NAME")]
    interface: Option<String>,
    #[command(flatten)]
    kind: KindArguments,
    /// Number of triggers; without it, triggers are announced until the command is interrupted.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seed of all random times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time to wait before the first interval, for example until the run has started.
    #[arg(long, default_value = "0 s", value_parser = parse_duration)]
    start_after: Duration,
    /// Send lines over TCP (`trigger.protocol = "tcp"`) instead of datagrams.
    #[arg(long, conflicts_with = "interface")]
    tcp: bool,
    /// Continue if the peer's kernel answers that no program listens; such triggers are counted.
    #[arg(long)]
    keep_going: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// The reason why triggers cannot be announced, or no longer.
#[derive(Debug, thiserror::Error)]
enum TriggerError {
    /// The operator must change the arguments, or start the other program.
    #[error("{0}")]
    Operator(String),
    /// The operating system refused a call.
    #[error("{what}: {error}; correct that, and start the triggers again")]
    System {
        /// Description of the failed action.
        what: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Runs `evb-bench trigger`. Returns 0 after the last trigger or an interruption, 2 if the operator
/// must change something, and 1 for other failures.
pub(super) fn main(arguments: &TriggerArguments) -> ExitCode {
    match announce(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("error: {error}");
            if matches!(error, TriggerError::Operator(_)) {
                BAD_CONFIGURATION.into()
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn announce(arguments: &TriggerArguments) -> Result<(), TriggerError> {
    let kind = arguments.kind.kind().map_err(TriggerError::Operator)?;
    let to = resolve(&arguments.to)?;
    check(arguments, to)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("the operating system refused a timer or an open file"))?;
    runtime.block_on(async {
        let mut feed = open(arguments, to).await?;
        let asked = arguments.kind.describe();
        complain!("announcing {asked} to {to}; interrupt (Ctrl-C) to stop");
        let fault = system("cannot wait for signals");
        let (mut interrupt, mut terminate) = signal(SignalKind::interrupt())
            .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)))
            .map_err(fault)?;
        let mut started = clock::now();
        let run = async {
            tokio::time::sleep(arguments.start_after).await;
            started = clock::now();
            feed.follow(Times::new(kind, arguments.seed, started), arguments.count).await
        };
        let (ended, failed) = tokio::select! {
            result = run => ("count", result.err()),
            _ = interrupt.recv() => ("interrupted", None),
            _ = terminate.recv() => ("interrupted", None),
        };
        let time = clock::now().since(started);
        let failed = failed.or_else(|| feed.check().err());
        let ended = if failed.is_some() { "failed" } else { ended };
        let summary = Summary::new(&feed, (to, &asked, arguments.kind.hertz()), time, ended);
        if arguments.json {
            say!("{}", summary.json())
        } else {
            say_in_line!("{summary}")
        }
        failed.map_or(Ok(()), |error| Err(unreachable(to, error)))
    })
}

/// Opens the way to the listeners.
async fn open(arguments: &TriggerArguments, to: SocketAddr) -> Result<TriggerFeed, TriggerError> {
    let opened = if arguments.tcp {
        TriggerFeed::lines(to).await
    } else {
        TriggerFeed::datagrams(to, arguments.interface.as_deref()).await
    };
    match opened {
        Ok(feed) if arguments.keep_going => Ok(feed),
        Ok(feed) => Ok(feed.stopping_when_refused()),
        Err(error) => Err(unreachable(to, error)),
    }
}

/// Looks up the first address of `HOST:PORT`.
fn resolve(to: &str) -> Result<SocketAddr, TriggerError> {
    let refuse = |reason: String| Err(TriggerError::Operator(reason));
    let port = to.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port != 0);
    if port.is_none() {
        return refuse(format!("`{to}` has no port; write for example --to 239.1.2.3:7002"));
    }
    match to.to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => refuse(format!("`{to}` has no address; check the name, DNS and /etc/hosts")),
        Err(error) => refuse(format!("cannot resolve `{to}`: {error}; give a host name or an address")),
    }
}

fn check(arguments: &TriggerArguments, to: SocketAddr) -> Result<(), TriggerError> {
    let refuse = |reason: String| Err(TriggerError::Operator(reason));
    let is_group = to.ip().is_multicast();
    match &arguments.interface {
        None if is_group && !arguments.tcp => refuse(format!(
            "{to} is a multicast group: state the network interface of the receivers, for example \
             --interface 10.0.0.1 or --interface eth0"
        )),
        _ if is_group && arguments.tcp => {
            refuse(format!("{to} is a multicast group, which TCP cannot reach: leave out --tcp"))
        }
        Some(interface) if !is_group => refuse(format!(
            "{to} is not a multicast group, and the kernel's routes determine its interface: leave out \
             --interface {interface}"
        )),
        // TCP joins lines into packets while the line is full.
        _ if arguments.tcp => Ok(()),
        interface => {
            link::check(arguments.kind.hertz(), to, interface.as_deref()).map_err(TriggerError::Operator)
        }
    }
}

fn system(what: &str) -> impl FnOnce(io::Error) -> TriggerError + '_ {
    move |error| TriggerError::System { what: what.to_owned(), error }
}

/// Explains an error of a connection. An operator can correct errors that show that the peer cannot
/// be reached.
fn unreachable(to: SocketAddr, error: io::Error) -> TriggerError {
    use io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, ConnectionReset, HostUnreachable, InvalidInput,
        NetworkUnreachable, NotFound, TimedOut,
    };
    match error.kind() {
        ConnectionRefused => TriggerError::Operator(format!(
            "no program listens at {to}: start the supervisor first, or use --keep-going ({error})"
        )),
        NotFound | InvalidInput | AddrNotAvailable => {
            TriggerError::Operator(format!("cannot send to {to}: {error}; check --interface"))
        }
        HostUnreachable | NetworkUnreachable | TimedOut | ConnectionReset => TriggerError::Operator(format!(
            "cannot reach {to}: {error}; check the address and the network, and that the supervisor runs"
        )),
        _ => TriggerError::System { what: format!("cannot send to {to}"), error },
    }
}
