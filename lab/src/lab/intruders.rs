//! Attacks on a system that uses a pre-shared key and runs at half of the network's capacity: a
//! hostile host floods it, scans its ports, replays packets, and joins with a wrong key or none.
//! The scenario also measures the cost of the key at full speed.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use lab_base::{
    bench::Bench,
    fleet::Fleet,
    guard::Guarded,
    network::{Network, Shape, address},
    outcome::Outcome,
    report::{Bound, Report},
    system::{Mode, System, Transport, Trigger, port_capacity},
};
use serde_json::Value;

use super::flood::{CONNECTS, DATAGRAMS};

/// The network; the host of the last source, s5, belongs to the intruder.
const SHAPE: Shape =
    Shape { sources: 5, builders: 2, rate: 100_000_000, port_buffer: 128 * 1024, ..Shape::PLAIN };
const INTRUDER: &str = "s5";
const FRAGMENT: u64 = 8_000;
const LOAD: f64 = 0.5;
/// Largest allowed loss of event rate under attack, as a share.
const LESS: f64 = 0.05;
/// Largest allowed number of log lines per second that all processes together write under attack.
const LINES_A_SECOND: f64 = 20.0;
/// Number of packets per second that the intruder replays.
const REPLAYS: u32 = 500;

pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::new("intruders");
    let network = Network::up(SHAPE)?;
    // Checksum offload is switched off on s1, so that captured packets contain valid checksums when
    // they are replayed.
    let whole = network.command("s1", "ethtool").args(["-K", "e0", "tx", "off"]).output()?;
    ensure!(whole.status.success(), "ethtool -K e0 tx off: {}", String::from_utf8_lossy(&whole.stderr));
    let key = new_key(bench, "key")?;
    for transport in [Transport::Tcp, Transport::Udp] {
        let rate = LOAD * port_capacity(SHAPE, transport, FRAGMENT) / 8.0 * f64::from(SHAPE.builders)
            / (FRAGMENT as f64 * f64::from(SHAPE.sources - 1));
        let base = System::new(Mode::Credit, FRAGMENT).over(transport).without_last_source().key(&key);
        let system = base.clone().trigger(Trigger::Periodic(rate));
        let name = |case: &str| Bench::name(&format!("4x2 {case}"), transport);
        let (quiet, _) = run_one(bench, &network, &name("in peace"), system.clone(), false)?;
        let name = name("attacked");
        let (attacked, attack) = run_one(bench, &network, &name, system, true)?;
        report.add(&quiet);
        report.add(&attacked);
        judge_attack(&name, attack, bench.seconds, &mut report)?;
        judge(&name, &quiet, &attacked, &bench.out, &mut report)?;
        wrong_keys(bench, &network, transport, &mut report)?;
        price(bench, &network, base, transport, &mut report)?;
    }
    Ok(report)
}

fn run_one(
    bench: &Bench,
    network: &Network,
    name: &str,
    system: System,
    attacked: bool,
) -> Result<(Outcome, Vec<Guarded>)> {
    let mut attack: Vec<Guarded> = Vec::new();
    let seconds = bench.seconds;
    let outcome = bench.run_with(network, name, system, |fleet: &mut Fleet| {
        if attacked && attack.is_empty() && fleet.elapsed().as_secs_f64() > 1.0 {
            attack = vec![flood(network, seconds)?, replay(network, seconds)?];
        }
        Ok(())
    })?;
    Ok((outcome, attack))
}

/// Checks that the attack sent nearly as many datagrams and connections as intended.
fn judge_attack(name: &str, attack: Vec<Guarded>, seconds: f64, report: &mut Report) -> Result<()> {
    let mut said = Vec::new();
    for mut program in attack {
        let mut words = String::new();
        if let Some(mut stdout) = program.0.stdout.take() {
            stdout.read_to_string(&mut words)?;
        }
        report.yes(&format!("{name}: the intruder's program ended well"), program.0.wait()?.success());
        said.push(serde_json::from_str(&words).unwrap_or(Value::Null));
    }
    for (what, rate) in [("datagrams", DATAGRAMS), ("connects", CONNECTS)] {
        let made = said.iter().find_map(|said| said[what].as_f64()).unwrap_or(f64::NAN);
        let most = format!("{name}: {what} of the flood, of those that it should make");
        report.noisy(&most, made / (rate * seconds), Bound::AtLeast(0.9));
    }
    Ok(())
}

fn flood(network: &Network, seconds: f64) -> Result<Guarded> {
    let program = std::env::current_exe()?;
    let mut command = network.command(INTRUDER, &program.to_string_lossy());
    command.args(["lab-traffic", "flood", &seconds.to_string()]);
    command.arg(format!("{}:7000", address("sup")?));
    for builder in 1..=SHAPE.builders {
        command.arg(format!("{}:7101", address(&format!("b{builder}"))?));
    }
    Ok(Guarded(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("starting the flood")?))
}

/// Starts a Python script on the switch that captures packets from source 1 to builder 1 and
/// replays them half a second later.
fn replay(network: &Network, seconds: f64) -> Result<Guarded> {
    const SCRIPT: &str = "
import socket, sys, time, collections
seconds, rate = float(sys.argv[1]), int(sys.argv[2])
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); tap.bind(('p-s1', 0)); tap.settimeout(0.01)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); out.bind(('p-b1', 0))
begun, last, kept = time.monotonic(), 0.0, collections.deque()
while time.monotonic() - begun < seconds:
    now = time.monotonic()
    try:
        frame, where = tap.recvfrom(2048)
        if where[2] != 4 and frame[30:34] == bytes([10, 77, 2, 1]) and now - last > 1 / rate:
            kept.append((now, frame)); last = now
    except socket.timeout:
        pass
    while kept and now - kept[0][0] > 0.5:
        out.send(kept.popleft()[1])
";
    let mut command = network.on_switch("python3");
    command.args(["-c", SCRIPT, &seconds.to_string(), &REPLAYS.to_string()]);
    Ok(Guarded(command.stdin(Stdio::null()).spawn().context("starting the replay")?))
}

fn judge(name: &str, quiet: &Outcome, attacked: &Outcome, out: &Path, report: &mut Report) -> Result<()> {
    for outcome in [quiet, attacked] {
        report.yes(&format!("{}: every event complete", outcome.name), outcome.is_complete());
    }
    let rate = |outcome: &Outcome| outcome.number("rates.events_per_s");
    let kept = rate(attacked) / rate(quiet);
    report.noisy(&format!("{name}: of the rate in peace"), kept, Bound::AtLeast(1.0 - LESS));
    let refused = attacked.number("security.refused");
    report.holds(&format!("{name}: connections refused and counted"), refused, Bound::AtLeast(100.0));
    report.holds(&format!("{}: the same", quiet.name), quiet.number("security.refused"), Bound::AtMost(0.0));
    if attacked.system.transport == Transport::Udp {
        let datagrams = ["damaged", "foreign", "stale", "forged", "replayed"]
            .map(|key| attacked.number(&format!("network.datagrams.{key}")))
            .iter()
            .filter(|count| count.is_finite())
            .sum();
        report.holds(&format!("{name}: datagrams refused and counted"), datagrams, Bound::AtLeast(100.0));
        let replayed = attacked.number("network.datagrams.replayed");
        report.holds(&format!("{name}: of these, replayed"), replayed, Bound::AtLeast(100.0));
    }
    let lines = lines(&out.join(name.replace(' ', "-")))?;
    let limit = LINES_A_SECOND * attacked.number("duration_s");
    report.holds(&format!("{name}: lines in all logs"), lines, Bound::AtMost(limit));
    for (kind, peak) in &attacked.peak_rss_kib {
        let before = quiet.peak_rss_kib.get(kind).copied().unwrap_or_default() as f64;
        let what = format!("{name}: KiB of the largest {kind}, in peace {before}");
        report.holds(&what, *peak as f64, Bound::AtMost(before * 1.25 + 1024.0));
    }
    Ok(())
}

fn lines(folder: &Path) -> Result<f64> {
    let mut lines = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            lines += fs::read_to_string(&path)?.lines().count();
        }
    }
    Ok(lines as f64)
}

/// Checks that a source with a wrong key and a source without a key are refused, with an error that
/// names the key as the cause.
fn wrong_keys(bench: &Bench, network: &Network, transport: Transport, report: &mut Report) -> Result<()> {
    let name = Bench::name("4x2 other keys", transport);
    let folder = bench.folder(&name)?;
    let system = System::new(Mode::Credit, FRAGMENT).over(transport).without_last_source();
    let other = new_key(bench, "other-key")?;
    let right = bench.out.join("key");
    let seconds = 4.0;
    let config = |file: &str, system: &System| -> Result<_> {
        let path = folder.join(file);
        fs::write(&path, system.config(SHAPE, seconds)?)?;
        Ok(path)
    };
    let outsider = System::new(Mode::Credit, FRAGMENT).over(transport);
    let wrong = config("wrong.toml", &outsider.clone().key(&other))?;
    let none = config("no.toml", &outsider)?;
    let mut outsiders = Vec::new();
    let outcome =
        bench.run_with(network, &name.replace("keys", "keys, run"), system.key(&right), |fleet| {
            if outsiders.is_empty() && fleet.elapsed().as_secs_f64() > 1.0 {
                for config in [&wrong, &none] {
                    let log = File::create(config.with_extension("log"))?;
                    let mut command = network.command(INTRUDER, &bench.evbd.to_string_lossy());
                    command.arg("run").arg(config).args(["--role", "source:5"]);
                    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
                    outsiders.push(Guarded(command.spawn()?));
                }
            }
            Ok(())
        })?;
    report.yes(&format!("{name}: the run does not notice"), outcome.is_complete());
    for (config, mut outsider) in [wrong, none].into_iter().zip(outsiders) {
        let ended = (0..400).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            outsider.0.try_wait().ok().flatten()
        });
        let code = ended.and_then(|status| status.code()).unwrap_or(-1);
        let said = fs::read_to_string(config.with_extension("log"))?;
        let file = config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        report.holds(
            &format!("{name}: exit code of a source with {file} key"),
            f64::from(code),
            Bound::AtLeast(1.0),
        );
        report.yes(
            &format!("{name}: with {file} key, it says that it is the key"),
            said.contains("key") && !said.contains("bind"),
        );
    }
    Ok(())
}

/// Runs at full speed with the key and without, and notes the ratios of goodput and CPU time.
fn price(
    bench: &Bench,
    network: &Network,
    system: System,
    transport: Transport,
    report: &mut Report,
) -> Result<()> {
    let name = |case: &str| Bench::name(&format!("4x2 full speed, {case}"), transport);
    let with = bench.run(network, &name("key"), system.clone())?;
    let without = bench.run(network, &name("no key"), system.without_key())?;
    for outcome in [&with, &without] {
        report.add(outcome);
        report.clean(outcome);
    }
    report.note(format!(
        "{}: {:.3} of the goodput without, {:.2} of its CPU time per event",
        with.name,
        with.goodput() / without.goodput(),
        (with.cpu_s / with.number("events.complete")) / (without.cpu_s / without.number("events.complete")),
    ));
    Ok(())
}

/// Creates a key file with `evbd keygen`.
fn new_key(bench: &Bench, file: &str) -> Result<std::path::PathBuf> {
    let path = bench.out.join(file);
    if path.exists() {
        fs::remove_file(&path)?;
    }
    let made = Command::new(&bench.evbd).arg("keygen").arg(&path).output()?;
    ensure!(made.status.success(), "evbd keygen: {}", String::from_utf8_lossy(&made.stderr).trim());
    Ok(path)
}
