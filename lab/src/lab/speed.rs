//! Throughput of two cores over loopback, where no link limits it. Compares evb over UDP with an
//! MTU of 1500, evb over TCP, both with and without a pre-shared key, and iperf3 with UDP datagrams
//! of the same size. All programs run in turn, several times.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use lab_base::{
    bench::Bench,
    fleet::Fleet,
    guard::Guarded,
    outcome::median,
    reference,
    report::{Bound, Report},
    system::Transport,
};
use serde_json::{Value, json};

/// UDP payload of a packet of 1500 bytes, in bytes.
const DATAGRAM: &str = "1472";
/// Longest duration of a run, in seconds.
const SECONDS: f64 = 5.0;
/// Least ratio of the throughput of evb over UDP to that of `iperf3 -u`.
const OVER_IPERF: f64 = 4.0;
/// Least ratio of the throughput of evb over UDP to that of evb over TCP.
const OF_TCP: f64 = 0.6;

/// Results of one round, in bit/s of payload.
struct Round {
    udp: f64,
    tcp: f64,
    udp_psk: f64,
    tcp_psk: f64,
    iperf_sent: f64,
    iperf_received: f64,
}

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("speed");
    println!(
        "{:<6} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12}   Gbit/s",
        "round", "evb udp", "evb tcp", "udp, key", "tcp, key", "iperf3 sent", "received"
    );
    let mut rounds = Vec::new();
    for number in 1..=bench.runs {
        let (iperf_sent, iperf_received) = iperf(bench)?;
        let [udp, tcp] =
            [Transport::Udp, Transport::Tcp].map(|transport| evb(bench, transport, Security::None, number));
        let [udp_psk, tcp_psk] =
            [Transport::Udp, Transport::Tcp].map(|transport| evb(bench, transport, Security::Psk, number));
        let (udp, tcp, udp_psk, tcp_psk) = (udp?, tcp?, udp_psk?, tcp_psk?);
        let round = Round { udp, tcp, udp_psk, tcp_psk, iperf_sent, iperf_received };
        println!("{number:<6} {}", line(&round));
        rounds.push(round);
    }
    let of = |get: fn(&Round) -> f64| median(rounds.iter().map(get));
    let middle = Round {
        udp: of(|r| r.udp),
        tcp: of(|r| r.tcp),
        udp_psk: of(|r| r.udp_psk),
        tcp_psk: of(|r| r.tcp_psk),
        iperf_sent: of(|r| r.iperf_sent),
        iperf_received: of(|r| r.iperf_received),
    };
    println!("{:<6} {}", "median", line(&middle));
    let sent = of(|r| r.udp / r.iperf_sent);
    report.noisy("udp over what iperf3 -u sent, median of rounds", sent, Bound::AtLeast(OVER_IPERF));
    let received = of(|r| r.udp / r.iperf_received);
    report.noisy("udp over what iperf3 -u received, median of rounds", received, Bound::AtLeast(OVER_IPERF));
    report.noisy("udp over tcp, median of rounds", of(|r| r.udp / r.tcp), Bound::AtLeast(OF_TCP));
    report.note(format!(
        "with a key, of the rate without one, median of rounds: udp {:.2}, tcp {:.2}",
        of(|r| r.udp_psk / r.udp),
        of(|r| r.tcp_psk / r.tcp)
    ));
    report.note(format!(
        "median Gbit/s: evb udp {:.2}, evb tcp {:.2}, iperf3 -u sent {:.2} and received {:.2}",
        middle.udp / 1e9,
        middle.tcp / 1e9,
        middle.iperf_sent / 1e9,
        middle.iperf_received / 1e9
    ));
    Ok(report)
}

fn line(round: &Round) -> String {
    let Round { udp, tcp, udp_psk, tcp_psk, iperf_sent, iperf_received } = *round;
    let [udp, tcp, udp_psk, tcp_psk, sent, received] =
        [udp, tcp, udp_psk, tcp_psk, iperf_sent, iperf_received].map(|rate| rate / 1e9);
    format!("{udp:>10.2} {tcp:>10.2} {udp_psk:>10.2} {tcp_psk:>10.2} {sent:>12.2} {received:>12.2}")
}

/// Security mode of the connections between peers.
#[derive(Clone, Copy)]
enum Security {
    None,
    Psk,
}

impl Security {
    const fn mode(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Psk => "psk",
        }
    }
}

/// Measures the payload rate from one source to one builder, each in its own process, in bit/s.
fn evb(bench: &Bench, transport: Transport, security: Security, round: usize) -> Result<f64> {
    let folder = bench.folder(&format!("speed-{}-{}-{round}", transport.word(), security.mode()))?;
    let config = folder.join("config.toml");
    let seconds = bench.seconds.min(SECONDS);
    let mut section = format!("mode = \"{}\"\n", security.mode());
    if let Security::Psk = security {
        let key = folder.join("key");
        let made = Command::new(&bench.evbd).arg("keygen").arg(&key).stdout(Stdio::null()).status();
        anyhow::ensure!(made.context("evbd keygen")?.success(), "evbd keygen fails");
        section.push_str(&format!("key_file = \"{}\"\n", key.display()));
    }
    fs::write(&config, configuration(transport, &section, seconds))?;
    let mut fleet = Fleet::start_here(&["sup", "s1", "b1"], &bench.evbd, &config, &folder)?;
    fleet.wait(Duration::from_secs_f64(seconds) + Duration::from_secs(30), |_| Ok(()))?;
    let text = fs::read_to_string(folder.join("sup.json")).with_context(|| fleet.complaints())?;
    let summary: Value = serde_json::from_str(&text)?;
    let events = |key: &str| summary["events"][key].as_u64();
    let is_complete = events("assigned") > Some(0) && events("complete") == events("assigned");
    if !is_complete || fleet.processes.iter().any(|process| process.code != Some(0)) {
        anyhow::bail!("{} over loopback: not complete; see {}", transport.word(), folder.display());
    }
    summary["rates"]["payload_bytes_per_s"].as_f64().map(|rate| rate * 8.0).context("no rate")
}

fn configuration(transport: Transport, security: &str, seconds: f64) -> String {
    let transport = transport.word();
    format!(
        "[run]\nnumber = 1\nduration = \"{seconds} s\"\n\n\
         [supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\nslots = 64\n\n\
         [network]\ntransport = \"{transport}\"\nlink_rate = \"100 Gbit/s\"\nport_buffer = \"4 MiB\"\nmtu = 1500\n\
         congestion_control = \"cubic\"\nadmission = \"warn\"\n\n[shaping]\nmode = \"credit\"\n\n\
         [security]\n{security}\n\
         [[source]]\nid = 1\nbind = \"127.0.0.1\"\ninput = {{ kind = \"generator\", size = \"64 kB\" }}\n\
         max_fragment = \"64 kB\"\n\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"null\" }}\n"
    )
}

/// Runs `iperf3 -u` over loopback, and returns the rates sent and received, in bit/s.
fn iperf(bench: &Bench) -> Result<(f64, f64)> {
    let server = ["-s", "-1", "-p", "7201"];
    let server = Command::new("iperf3").args(server).stdout(Stdio::null()).spawn();
    let mut server = Guarded(server.context("starting iperf3")?);
    thread::sleep(Duration::from_millis(300));
    let seconds = bench.seconds.min(SECONDS).ceil().to_string();
    let arguments = ["-c", "127.0.0.1", "-p", "7201", "-u", "-l", DATAGRAM, "-b", "0", "-t", &seconds, "-J"];
    let output = Command::new("iperf3").args(arguments).output().context("running iperf3")?;
    server.0.wait()?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or(json!(null));
    Ok((reference::rate(&said, "sum_sent")?, reference::rate(&said, "sum_received")?))
}
