//! Measures the speed of bare datagram sockets on the loopback, next to `iperf3 -u` with datagrams
//! of the same size: `cargo run --release -p evb-net --example udp_speed [seconds] [bytes per
//! datagram] [datagrams per train]`.
#![allow(clippy::unwrap_used)] // a measurement: what fails, ends it

use std::{
    io::IoSlice,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::{Duration, Instant},
};

use evb_core::units::Bytes;
use evb_net::{
    pacing::{MAX_TRAIN, SendError},
    udp::{DatagramSocket, Progress, UdpOptions, open},
};

/// Maximum number of datagrams that the reader receives in one turn.
const TURN: usize = 1024;

/// Port on which iperf3 listens.
const IPERF_PORT: &str = "5299";

struct Outcome {
    sent: u64,
    received: u64,
    runs: u64,
    dropped: u64,
    elapsed: Duration,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (seconds, size) = (number(3), number(1472));
    let train = number(MAX_TRAIN / size).clamp(1, 64);
    let outcome = ours(Duration::from_secs(seconds as u64), size, train);
    let rate = |datagrams: u64| datagrams as f64 / outcome.elapsed.as_secs_f64();
    let gbits = |datagrams_per_second: f64| datagrams_per_second * size as f64 * 8.0 / 1e9;
    let ours = rate(outcome.received);
    println!("{size} B per datagram, {train} per train, payload, loopback:");
    println!(
        "  sent                {:7.2} Gbit/s  {:9.0} datagrams/s",
        gbits(rate(outcome.sent)),
        rate(outcome.sent)
    );
    println!(
        "  received            {:7.2} Gbit/s  {ours:9.0} datagrams/s  ({:.1} per message, {} messages dropped)",
        gbits(ours),
        outcome.received as f64 / outcome.runs.max(1) as f64,
        outcome.dropped
    );
    match iperf3(seconds, size) {
        Ok([sent, received]) => {
            println!("  iperf3 -u sent      {:7.2} Gbit/s  {sent:9.0} datagrams/s", gbits(sent));
            println!("  iperf3 -u received  {:7.2} Gbit/s  {received:9.0} datagrams/s", gbits(received));
            let ratio = |ours: u64, theirs| rate(ours) / theirs;
            let (sending, receiving) = (ratio(outcome.sent, sent), ratio(outcome.received, received));
            println!("  ours / iperf3's: {sending:.1} sent, {receiving:.1} received");
            println!("  received of ours / sent of iperf3's: {:.1}", ratio(outcome.received, sent));
        }
        Err(reason) => println!("  no comparison with iperf3: {reason}"),
    }
}

/// Measures evb's sockets with one thread that sends as fast as it can, and one that receives.
fn ours(duration: Duration, size: usize, train: usize) -> Outcome {
    let options = UdpOptions {
        receive_buffer: Some(Bytes::mib(4)),
        send_buffer: Some(Bytes::mib(1)),
        ..UdpOptions::default()
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let over = AtomicBool::new(false);
    let receiver = runtime();
    let entered = receiver.enter();
    let mut builder = open("127.0.0.1:0".parse().unwrap(), None, &options).unwrap();
    drop(entered);
    let address = builder.local_addr().unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let received = receiver.block_on(receive(&mut builder, &over));
            let counts = builder.counts().unwrap();
            (received, counts.runs, builder.receive_drops().unwrap())
        });
        let begin = Instant::now();
        let sent = runtime().block_on(send(address, &options, duration, size, train));
        let elapsed = begin.elapsed();
        over.store(true, Ordering::Relaxed);
        let (received, runs, dropped) = reading.join().unwrap();
        Outcome { sent, received, runs, dropped, elapsed }
    })
}

async fn receive(socket: &mut DatagramSocket, over: &AtomicBool) -> u64 {
    let mut received = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    std::future::poll_fn(|cx| {
        while tick.poll_tick(cx).is_ready() {
            if over.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
        }
        if socket.poll_recv(cx, TURN, |_, run| received += run.len() as u64).unwrap() == Progress::More {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    received
}

async fn send(peer: SocketAddr, options: &UdpOptions, duration: Duration, size: usize, train: usize) -> u64 {
    let mut socket = open("127.0.0.1:0".parse().unwrap(), Some(peer), options).unwrap();
    let bytes = vec![0x5a; size * train];
    // Each datagram consists of a slice for the header and a slice for the body, as on a lane.
    let slices: Vec<_> = bytes
        .chunks(size)
        .flat_map(|one| [&one[..40.min(size)], &one[40.min(size)..]])
        .map(IoSlice::new)
        .collect();
    let segment = u16::try_from(size).unwrap();
    let (begin, mut sent) = (Instant::now(), 0);
    while begin.elapsed() < duration {
        match socket.send_train(&slices, segment, None) {
            Ok(went) => sent += went.div_ceil(size) as u64,
            Err(SendError::Full) => std::future::poll_fn(|cx| socket.poll_writable(cx)).await.unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

/// Returns the number of datagrams per second that iperf3 sends, and the number per second that
/// arrive.
fn iperf3(seconds: usize, size: usize) -> Result<[f64; 2], String> {
    let quiet = |arguments: &[&str]| {
        let mut command = Command::new("iperf3");
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut server = quiet(&["-s", "-1", "-p", IPERF_PORT])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("iperf3: {error}"))?;
    std::thread::sleep(Duration::from_millis(500));
    let (seconds, size) = (seconds.to_string(), size.to_string());
    let client = ["-c", "127.0.0.1", "-p", IPERF_PORT, "-u", "-b", "0", "-l", &size, "-t", &seconds, "-J"];
    let output = quiet(&client).output().map_err(|error| format!("iperf3: {error}"))?;
    let _ = server.kill();
    let _ = server.wait();
    let said = String::from_utf8_lossy(&output.stdout);
    let total = said.rsplit_once("\"sum\":").map_or("", |(_, total)| total);
    let field = |name: &str| {
        let (_, rest) = total.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}', '\n']).next()?.trim().parse::<f64>().ok()
    };
    let rates = || {
        let (packets, lost, seconds) = (field("packets")?, field("lost_packets")?, field("seconds")?);
        Some([packets / seconds, (packets - lost) / seconds])
    };
    rates().ok_or_else(|| "it printed no error".to_owned())
}
