//! `evbd probe-buffer`: measures the usable buffer of a switch port, for `network.port_buffer`. Two
//! or more senders overload the port towards the listener with bursts of growing size until the
//! port drops datagrams.

mod wire;
mod trace;
mod search;
mod sender;
mod listener;
mod report;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    process::ExitCode,
    time::Duration,
};

use clap::Subcommand;
use evb_config::{complain, say, say_in_line};
use evb_core::units::{Bytes, parse_duration};

use self::{
    listener::{Gathering, Listener},
    search::{Limits, SearchResult, search},
};
use crate::check::refused;

/// The two ends of the measurement.
#[derive(Debug, Subcommand)]
pub enum ProbeBufferCommand {
    /// Run this on the builder's host: waits for the senders, measures the buffer, and prints the
    /// line for the configuration.
    Listen(ListenArguments),
    /// Run this on the hosts of two or more sources: sends as the listener orders, and ends when
    /// the listener ends.
    Send(SendArguments),
}

/// Default port of the listener.
const PORT: u16 = 7199;

/// Arguments of `evbd probe-buffer listen`.
#[derive(clap::Args, Debug)]
pub struct ListenArguments {
    /// This host's address on the network of the port to be measured, for TCP and UDP (port 7199
    /// unless given).
    #[arg(value_name = "ADDR")]
    address: String,
    /// Number of senders that must connect before the measurement starts.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    senders: u16,
    /// Size of the largest IP packet that passes the whole path.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9000))]
    mtu: u16,
    /// Largest size of a burst from all senders together.
    #[arg(long, value_name = "BYTES", default_value = "32 MiB")]
    burst: Bytes,
    /// Number of bursts, larger than the smallest burst with a loss, from which the result is the
    /// median.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Longest time to wait for the senders.
    #[arg(long, default_value = "60 s", value_parser = parse_duration)]
    patience: Duration,
    /// Time after which the measurement starts no further bursts.
    #[arg(long, default_value = "60 s", value_parser = parse_duration)]
    time: Duration,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `evbd probe-buffer send`.
#[derive(clap::Args, Debug)]
pub struct SendArguments {
    /// Address of the listener (port 7199 unless given).
    #[arg(value_name = "ADDR")]
    address: String,
    /// The local address from which to send.
    #[arg(long, value_name = "IP")]
    bind: Option<IpAddr>,
}

/// Runs `evbd probe-buffer`. Returns 0 if the measurement was carried out (even if no burst filled
/// the buffer), 1 if it failed, 2 for a bad address.
pub fn main(command: &ProbeBufferCommand) -> ExitCode {
    let address = match command {
        ProbeBufferCommand::Listen(arguments) => &arguments.address,
        ProbeBufferCommand::Send(arguments) => &arguments.address,
    };
    let Some(address) = socket_address(address) else {
        return refused(&format!(
            "`{address}` is not an address that this host knows: write for example 10.0.0.7 or 10.0.0.7:{PORT}"
        ));
    };
    let done: Result<(), Box<dyn std::error::Error>> = match command {
        ProbeBufferCommand::Listen(arguments) => listen(arguments, address).map_err(Into::into),
        ProbeBufferCommand::Send(arguments) => send(address, arguments.bind).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses `host`, `host:port`, or an IPv6 address with or without brackets and port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    with_port.or_else(|| (bare, PORT).to_socket_addrs().ok()?.next())
}

/// Waits for the senders, searches for the size of the port's buffer, and shows the result.
fn listen(arguments: &ListenArguments, address: SocketAddr) -> Result<(), listener::ListenError> {
    let quiet = arguments.json;
    let mut say = |progress: &str| {
        if !quiet {
            complain!("{progress}");
        }
    };
    say(&format!(
        "listening on {address} for {} senders, for up to {:?}; run on each of their hosts: evbd probe-buffer send {address}",
        arguments.senders, arguments.patience
    ));
    let wanted = Gathering {
        address,
        senders: arguments.senders.into(),
        mtu: arguments.mtu,
        patience: arguments.patience,
        time: arguments.time,
    };
    let mut listener = Listener::gather(wanted, Some(&mut say))?;
    let limits = Limits { burst: arguments.burst, repeats: arguments.repeats };
    let result: SearchResult = search(&mut listener, limits)?;
    listener.end(result.buffer());
    match arguments.json {
        true => say!("{:#}", report::json(&result)),
        false => say_in_line!("{}", report::text(&result)),
    }
    Ok(())
}

/// Sends what the listener orders, and shows what it has measured.
fn send(address: SocketAddr, bind: Option<IpAddr>) -> Result<(), sender::SendError> {
    let found = sender::send(address, bind)?;
    match report::whole_kib(found) {
        0 => say!("done; the listener could not measure the port's buffer, and its output says why"),
        kib => say!("done; the listener has measured a port buffer of {kib} KiB"),
    }
    Ok(())
}
