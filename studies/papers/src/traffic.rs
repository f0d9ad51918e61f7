//! Traffic on the lab's hosts that is not part of evb: a bulk TCP transfer without a rate limit,
//! control messages that are answered, and others. Each program is a hidden command of the lab,
//! which is started inside a host's namespace.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use lab_base::{
    guard::Guarded,
    network::{Network, address},
    outcome::quantile,
};
use serde_json::{Value, json};
use socket2::SockRef;

use crate::{atlas, babar::third_level, office::connect_often};

/// DSCP code point of bulk traffic, CS1; `CONTROL` is that of control traffic, CS6 (RFC 4594).
const BULK: u32 = 8 << 2;
const CONTROL: u32 = 48 << 2;
/// Payload of a control message, in bytes.
const MESSAGE: usize = 64;
/// Interval between control messages.
const EVERY: Duration = Duration::from_millis(5);
/// Time after which the answer to a control message counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Subcommand)]
pub enum Half {
    /// Receives bulk data and answers control messages.
    Serve { bulk: SocketAddr, control: SocketAddr },
    /// Sends bulk data over TCP for the given seconds.
    Bulk { to: SocketAddr, seconds: f64 },
    /// Sends control messages for the given seconds, and prints quantiles of the response times as
    /// JSON.
    Ask { to: SocketAddr, seconds: f64 },
    /// Opens short connections one after the other for the given seconds, several at a time, and
    /// prints their number and quantiles of their durations as JSON.
    Short { to: SocketAddr, seconds: f64 },
    /// Notes when trigger announcements arrive.
    Tap(atlas::Tap),
    /// Runs a builder whose filter takes time for each event.
    Filtered(third_level::Filtered),
}

/// Runs one of the traffic programs until it ends.
pub fn run(half: Half) -> Result<()> {
    match half {
        Half::Serve { bulk, control } => serve(bulk, control),
        Half::Bulk { to, seconds } => send_bulk(to, seconds),
        Half::Ask { to, seconds } => ask(to, seconds),
        Half::Short { to, seconds } => connect_often(to, seconds),
        Half::Tap(tap) => atlas::listen(&tap),
        Half::Filtered(builder) => third_level::build(&builder),
    }
}

fn serve(bulk: SocketAddr, control: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(bulk)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || swallow(stream));
        }
    });
    let socket = UdpSocket::bind(control)?;
    SockRef::from(&socket).set_tos_v4(CONTROL)?;
    let mut message = [0; MESSAGE];
    loop {
        let (length, from) = socket.recv_from(&mut message)?;
        socket.send_to(&message[..length], from)?;
    }
}

fn swallow(mut stream: TcpStream) {
    let mut memory = vec![0; 64 << 10];
    while stream.read(&mut memory).is_ok_and(|read| read > 0) {}
}

fn send_bulk(to: SocketAddr, seconds: f64) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    SockRef::from(&stream).set_tos_v4(BULK)?;
    let (begun, memory) = (Instant::now(), vec![0; 64 << 10]);
    let mut sent = 0u64;
    while begun.elapsed().as_secs_f64() < seconds {
        stream.write_all(&memory)?;
        sent += memory.len() as u64;
    }
    println!("{}", json!({ "bytes": sent, "seconds": begun.elapsed().as_secs_f64() }));
    Ok(())
}

fn ask(to: SocketAddr, seconds: f64) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    SockRef::from(&socket).set_tos_v4(CONTROL)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (begun, mut times, mut asked) = (Instant::now(), Vec::new(), 0u64);
    while begun.elapsed().as_secs_f64() < seconds {
        asked += 1;
        let (sent, mut answer) = (Instant::now(), [0; MESSAGE]);
        let mut question = [0; MESSAGE];
        question[..8].copy_from_slice(&asked.to_le_bytes());
        socket.send(&question)?;
        // Late answers to earlier messages are skipped.
        while socket.recv(&mut answer).is_ok() {
            if answer == question {
                times.push(sent.elapsed().as_secs_f64() * 1e6);
                break;
            }
        }
        thread::sleep((sent + EVERY).saturating_duration_since(Instant::now()));
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| quantile(&times, part);
    let lost = asked - times.len() as u64;
    println!(
        "{}",
        json!({ "asked": asked, "lost": lost, "p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1.0) })
    );
    Ok(())
}

/// Traffic programs that run on hosts of the lab; dropping this value ends them.
pub struct Traffic<'n> {
    network: &'n Network,
    running: Vec<(&'static str, Guarded)>,
}

impl<'n> Traffic<'n> {
    /// Starts control traffic between the hosts `from` and `to`, and bulk traffic if `with_bulk`,
    /// for the given seconds.
    pub fn start(
        network: &'n Network,
        (from, to): (&str, &str),
        seconds: f64,
        with_bulk: bool,
    ) -> Result<Self> {
        let mut traffic = Self { network, running: Vec::new() };
        let (bulk, control) = (format!("{}:9001", address(to)?), format!("{}:9002", address(to)?));
        let seconds = seconds.to_string();
        traffic.spawn("serve", to, &["serve", &bulk, &control])?;
        // The server has to listen before the senders connect.
        thread::sleep(Duration::from_millis(300));
        if with_bulk {
            traffic.spawn("bulk", from, &["bulk", &bulk, &seconds])?;
        }
        traffic.spawn("ask", from, &["ask", &control, &seconds])?;
        Ok(traffic)
    }

    fn spawn(&mut self, what: &'static str, host: &str, arguments: &[&str]) -> Result<()> {
        let program = std::env::current_exe()?;
        // The program runs with real-time priority, so that response times measure the network and
        // not the wait for a core.
        let mut command: Command = self.network.command(host, "chrt");
        command
            .args(["--fifo", "10"])
            .arg(program)
            .arg("lab-traffic")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let child = command.spawn().with_context(|| format!("starting {what} on {host}"))?;
        self.running.push((what, Guarded(child)));
        Ok(())
    }

    /// Waits for the end of the traffic, and returns the results of bulk (null without bulk
    /// traffic) and of control.
    pub fn finish(mut self) -> Result<(Value, Value)> {
        let mut said = |what: &str| -> Result<Option<Value>> {
            let Some(place) = self.running.iter().position(|(name, _)| *name == what) else {
                return Ok(None);
            };
            let mut program = self.running.swap_remove(place).1;
            let mut words = String::new();
            program.0.stdout.take().context("it has no output")?.read_to_string(&mut words)?;
            let value = serde_json::from_str(&words);
            value.map(Some).with_context(|| format!("{what} has said nothing"))
        };
        Ok((said("bulk")?.unwrap_or_default(), said("ask")?.context("control was not asked")?))
    }
}
