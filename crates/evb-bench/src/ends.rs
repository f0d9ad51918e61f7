//! The two ends of a measurement between two hosts: a TCP connection in lines of JSON, by which
//! they agree on each run, and the sockets that carry the measured data. Without a peer, the far
//! end is a thread of this process, and the data pass over loopback.

mod dialogue;
mod sockets;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use clap::ValueEnum;
use evb_config::{complain, say};
use evb_net::host::sockets as sockets_of_host;
use serde::{Deserialize, Serialize};

pub(super) use dialogue::{Dialogue, PATIENCE};
pub(super) use sockets::{
    SocketWishes, accept_from, granted, is_timeout, tcp_connect, tcp_listener, udp_socket,
};

use crate::output::BenchError;

/// Longest time for the connection to the far end.
const CONNECT: Duration = Duration::from_secs(5);

/// Shortest and longest duration of a measurement in seconds.
const SHORTEST: f64 = 0.05;
const LONGEST: f64 = 600.0;
const LONGEST_WARM_UP: Duration = Duration::from_secs(60);

/// Arguments that choose the far end of a measurement.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Only serve, at this address, measurements that start on another host, until interrupted.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["send_to", "json", "svg"])]
    pub(super) listen: Option<SocketAddr>,
    /// Measure with another host, where the same command runs with --listen.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) send_to: Option<SocketAddr>,
}

impl Ends {
    /// Returns the host of the far end; `None` if it is a thread of this process.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.send_to.map(|to| to.ip())
    }
}

/// Refuses durations of a measurement and of its warm-up with which nothing can be measured.
pub(super) fn check_span(seconds: f64, warm_up: Duration) -> Result<(), BenchError> {
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        return Err(BenchError::Operator(format!("--seconds is {SHORTEST} to {LONGEST}, not {seconds}")));
    }
    if warm_up > LONGEST_WARM_UP {
        return Err(BenchError::Operator(format!("--warm-up is at most one minute, not {warm_up:?}")));
    }
    Ok(())
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The byte stream.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// Payload of the largest datagram over IPv4 (RFC 768, RFC 791).
pub(super) const LARGEST_DATAGRAM: u64 = 65_507;

/// A function that serves one measurement, until the peer closes the connection.
pub(super) type Serve = fn(&mut Dialogue) -> io::Result<()>;

/// Serves one peer after the other, for ever.
pub(super) fn listen(at: SocketAddr, bench: &str, serve: Serve) -> Result<Infallible, BenchError> {
    let refused = |error| {
        BenchError::Operator(format!("cannot listen at {at}: {error}; choose another address or port"))
    };
    let listener = TcpListener::bind(at).map_err(refused)?;
    let at = listener.local_addr().map_err(refused)?;
    say!("serving at {at}; start the other end with `evb-bench {bench} --send-to {at}`");
    loop {
        match accept(&listener, bench, serve) {
            Ok(peer) => say!("{peer} is done"),
            Err(error) => complain!(
                "a measurement of `evb-bench {bench}` failed: {error}; this end waits for the next one"
            ),
        }
    }
}

fn accept(listener: &TcpListener, bench: &str, serve: Serve) -> io::Result<SocketAddr> {
    let (stream, peer) = listener.accept()?;
    let mut dialogue = Dialogue::answer(stream, bench)?;
    serve(&mut dialogue)?;
    Ok(peer)
}

/// Measures with the far end at `to`, or with a far end in a thread of this process.
pub(super) fn measure<T>(
    to: Option<SocketAddr>,
    bench: &str,
    serve: Serve,
    course: impl FnOnce(Dialogue) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let Some(to) = to else { return measure_here(bench, serve, course) };
    let unreachable = |error: io::Error| {
        BenchError::Operator(format!(
            "cannot reach {to}: {error}; start the far end there with `evb-bench {bench} --listen {to}`"
        ))
    };
    let stream = TcpStream::connect_timeout(&to, CONNECT).map_err(unreachable)?;
    course(greeted(stream, bench, to)?)
}

fn greeted(stream: TcpStream, bench: &str, to: SocketAddr) -> Result<Dialogue, BenchError> {
    Dialogue::ask(stream, bench).map_err(|error| {
        BenchError::Operator(format!("{to} is not the far end of `evb-bench {bench}`: {error}; start that there with `evb-bench {bench} --listen {to}`, in the same version"))
    })
}

fn measure_here<T>(
    bench: &str,
    serve: Serve,
    course: impl FnOnce(Dialogue) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let fault = || BenchError::system("cannot connect over the loopback device");
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).map_err(fault())?;
    let to = listener.local_addr().map_err(fault())?;
    // The connection waits in the listener's queue, so that the thread cannot wait for ever for a
    // connection that failed.
    let stream = TcpStream::connect(to).map_err(fault())?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| accept(&listener, bench, serve));
        let result = greeted(stream, bench, to).and_then(course);
        match serving.join() {
            Ok(Ok(_)) => result,
            Ok(Err(error)) => result.and_then(|_| Err(BenchError::system("the receiving end in this process failed")(error))),
            Err(_) => Err(BenchError::Operator("the receiving end in this process crashed: report this fault of evb-bench with the lines above".into())),
        }
    })
}

/// Returns the payload of the largest datagram that the path to `peer` (`None`: over loopback)
/// carries in one packet; `None` if the path's MTU is not known.
pub(super) fn datagram_limit(peer: Option<IpAddr>) -> Option<u64> {
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    // Headers of IP and UDP (RFC 791, RFC 8200, RFC 768).
    let headers = if peer.is_ipv4() { 20 + 8 } else { 40 + 8 };
    Some(u64::from(sockets_of_host::path_mtu(peer).ok()?).saturating_sub(headers))
}

/// Describes the path of the measured data in words.
pub(super) fn path_text(to: Option<SocketAddr>) -> String {
    to.map_or_else(|| "over loopback, both ends in one process".to_owned(), |to| format!("to {to}"))
}
