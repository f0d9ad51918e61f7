//! The network lab: a switch with shallow ports in network namespaces, `evbd` with one process per
//! role on it, and scenarios with bounds. Loopback shows no incast; this does, as far as two cores
//! carry it: about 1 Gbit/s in total in packets, and ten times that in trains.

mod interrupt;
mod network;
mod system;
mod fleet;
mod outcome;
pub(crate) mod report;
pub(crate) mod guard;
pub(crate) mod disk;
mod bench;
mod reference;
mod incast;
mod fill;
mod calibrate;
mod stops;
mod babar;
mod rcnp;
mod frozen;
mod provisioned;
mod dice;
mod relay;
mod flood;
pub(crate) mod traffic;
mod qos;
mod mixed;
mod modes;
mod probe;
mod wan;
mod damage;
mod loss;
mod recovery;
mod speed;
mod watch;
mod memory;
mod books;
mod chaos;
mod deaths;
pub(crate) mod pressure;
mod intruders;
mod smoke;

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use self::{
    bench::Bench,
    network::{Network, Shape},
    system::Transport,
};
use crate::{SKIPPED, repo};

#[derive(Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    scenario: Scenario,
    /// Folder for configurations, logs, summaries and reports.
    #[arg(long, global = true, default_value = "target/lab")]
    out: PathBuf,
    /// Length of each run, in seconds.
    #[arg(long, global = true, default_value_t = 10.0)]
    seconds: f64,
    /// Number of runs of which the median counts, if a bound is on a median.
    #[arg(long, global = true, default_value_t = 5)]
    runs: usize,
    /// The daemon to run; by default it is built in release mode.
    #[arg(long, global = true)]
    evbd: Option<PathBuf>,
    /// Run only the cases whose name contains this text.
    #[arg(long, global = true, default_value = "")]
    only: String,
    /// Transport of the lanes, in `incast`, `fill`, `babar`, `pressure`, `chaos`, `soak` and
    /// `deaths`; by default TCP, and both in the last three.
    #[arg(long, global = true)]
    transport: Option<Transports>,
    /// Hosts keep their segmentation offloads, and trains of at most 16 KiB cross the network
    /// whole, so that two cores carry 10 Gbit/s. In `up` and `incast`; implied in `fill`,
    /// `calibrate` and `stops`.
    #[arg(long, global = true)]
    trains: bool,
    /// The largest IP packet, in bytes, in the same.
    #[arg(long, global = true, default_value_t = 1500)]
    mtu: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Transports {
    Tcp,
    Udp,
    Both,
}

impl Transports {
    fn all(self) -> &'static [Transport] {
        match self {
            Self::Tcp => &[Transport::Tcp],
            Self::Udp => &[Transport::Udp],
            Self::Both => &[Transport::Tcp, Transport::Udp],
        }
    }
}

#[derive(Subcommand)]
enum Scenario {
    /// 8 and 32 sources into one port: goodput, drops and latency of every mode.
    Incast(incast::IncastArgs),
    /// Trains through ports of 10 Gbit/s: evb by turns with `iperf3` and ZeroMQ, goodput, drops,
    /// processor time, latency.
    Fill(fill::FillArgs),
    /// The lab itself, with trains: an idle port's buffer, what counts as dropped, and what
    /// `iperf3` carries.
    Calibrate(calibrate::CalibrateArgs),
    /// Sources of a 10 Gbit/s port that stop for 5 ms and for 5 s, and a hog on each core.
    Stops(stops::StopsArgs),
    /// 22 sources, 15 builders, 32 kB events: the design load and the limit.
    Babar,
    /// 4 sources, 4 builders, one source at a time: event rates by size.
    Rcnp,
    /// A source process that freezes in the middle of a run.
    Frozen,
    /// 1x1, 1x3 and 3x1 with a rate for each destination, kept by evb and by the kernel.
    Qos,
    /// Event data, a bulk transfer and control through one host, with classes and without.
    Mixed,
    /// Credit, window, token bucket and nothing, for 4 to 32 sources.
    Modes,
    /// `evbd probe-buffer` against ports of known buffers, and one that cannot be overflowed.
    Probe,
    /// UDP and TCP at full speed while packets are lost at random, and while bits are flipped.
    Loss,
    /// Time until single losses are repaired.
    Recovery,
    /// Throughput of two cores over loopback: evb over UDP and TCP, and iperf3.
    Speed,
    /// TCP and UDP over a line that loses, repeats, reorders, delays and corrupts packets, under
    /// User-Mode Linux.
    Wan {
        /// The short version that CI runs: UDP only, a few seconds each.
        #[arg(long)]
        short: bool,
        /// Run on this kernel.
        #[arg(long, hide = true)]
        here: bool,
    },
    /// Faults drawn from a seed, one after the other, over TCP and UDP: nothing may be lost,
    /// duplicated or stuck.
    Chaos(chaos::ChaosArgs),
    /// A long run near the limit, with a fault a minute: checks the ledger and the memory.
    Soak(chaos::SoakArgs),
    /// A builder that is killed at full rate, and a supervisor that is killed and comes back.
    Deaths,
    /// A frozen source, slow sinks, a slow link: checks the others' rates, the dead time's causes,
    /// and the memory.
    Pressure(pressure::PressureArgs),
    /// A hostile host on the network of a system with a key, and what the key costs.
    Intruders,
    /// The short subset that CI runs.
    Smoke,
    /// Bring a network up and hold it until Ctrl-C; `ip netns exec evb-s1 …` runs a command on a
    /// host.
    Up {
        sources: u16,
        builders: u16,
        /// Rate of every port, in Mbit/s.
        mbit: u64,
        /// Buffer of a switch port, in KiB.
        kib: u64,
        /// Random loss towards b1, in percent.
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
    },
    /// Remove what a killed lab has left behind.
    Down,
}

impl LabArgs {
    /// Returns the requested transports, or the scenario's default ones.
    fn transports(&self) -> &'static [Transport] {
        self.transport.unwrap_or_else(|| self.scenario.usual_transports()).all()
    }
}

impl Scenario {
    /// Returns the default transports of a scenario.
    fn usual_transports(&self) -> Transports {
        match self {
            Self::Chaos(_) | Self::Soak(_) | Self::Deaths => Transports::Both,
            _ => Transports::Tcp,
        }
    }
}

/// Runs one scenario, and returns the exit code: 0 if every bound holds, [`SKIPPED`] if this
/// machine cannot make the network.
pub(crate) fn run(args: &LabArgs) -> Result<u8> {
    if let Scenario::Wan { short, here: false } = args.scenario {
        return wan::elsewhere(args, &evbd(args)?, short);
    }
    let lacks = if matches!(args.scenario, Scenario::Down) { None } else { lacks() };
    match (lacks, &args.scenario) {
        (None, _) => run_here(args).map(|holds| u8::from(!holds)),
        // The other kernel has everything.
        (Some(reason), Scenario::Wan { .. }) => bail!("the lab cannot run here: {reason}"),
        (Some(reason), _) => {
            eprintln!("SKIP: the lab cannot run here: {reason}");
            Ok(SKIPPED)
        }
    }
}

fn run_here(args: &LabArgs) -> Result<bool> {
    if matches!(args.scenario, Scenario::Down) {
        return network::remove_all().map(|()| true);
    }
    interrupt::watch()?;
    if let Scenario::Up { sources, builders, mbit, kib, loss } = args.scenario {
        let (rate, port_buffer) = (mbit * 1_000_000, kib * 1024);
        return hold(
            Shape { sources, builders, rate, port_buffer, mtu: args.mtu, trains: args.trains },
            loss,
        );
    }
    fs::create_dir_all(&args.out).with_context(|| format!("creating {}", args.out.display()))?;
    let bench = Bench {
        out: args.out.canonicalize()?,
        evbd: evbd(args)?,
        seconds: args.seconds,
        runs: args.runs,
        only: args.only.clone(),
        transports: args.transports(),
        trains: args.trains,
        mtu: args.mtu,
    };
    let report = match &args.scenario {
        Scenario::Incast(args) => incast::run(&bench, args)?,
        Scenario::Fill(args) => fill::run(&bench, args)?,
        Scenario::Calibrate(args) => calibrate::run(&bench, args)?,
        Scenario::Stops(args) => stops::run(&bench, args)?,
        Scenario::Babar => babar::run(&bench)?,
        Scenario::Rcnp => rcnp::run(&bench)?,
        Scenario::Frozen => frozen::run(&bench)?,
        Scenario::Qos => qos::run(&bench)?,
        Scenario::Mixed => mixed::run(&bench)?,
        Scenario::Modes => modes::run(&bench)?,
        Scenario::Probe => probe::run(&bench)?,
        Scenario::Wan { short, .. } => wan::run(&bench, *short)?,
        Scenario::Chaos(args) => chaos::run(&bench, args)?,
        Scenario::Loss => loss::run(&bench)?,
        Scenario::Recovery => recovery::run(&bench)?,
        Scenario::Speed => speed::run(&bench)?,
        Scenario::Soak(args) => chaos::soak(&bench, args)?,
        Scenario::Intruders => intruders::run(&bench)?,
        Scenario::Deaths => deaths::run(&bench)?,
        Scenario::Pressure(args) => pressure::run(&bench, args)?,
        Scenario::Smoke | Scenario::Up { .. } | Scenario::Down => smoke::run(&bench)?,
    };
    report.finish(&bench.out)
}

/// Returns what this machine lacks for the lab, after a trial in a network namespace.
fn lacks() -> Option<String> {
    if !is_root() {
        return Some("network namespaces and queueing disciplines need root".into());
    }
    let missing = |tool: &&str| Command::new(tool).arg("--help").output().is_err();
    if let Some(tool) = ["ip", "tc", "ethtool", "unshare"].iter().find(|tool| missing(tool)) {
        return Some(format!("{tool} is not installed"));
    }
    let tried = Command::new("unshare").args(["--net", "sh", "-ec", PROBE]).output().ok()?;
    let said = String::from_utf8_lossy(&tried.stderr);
    (!tried.status.success()).then(|| format!("this kernel does not do it all: {}", said.trim()))
}

/// A script that creates every kind of device, queue and filter that a network is made of.
const PROBE: &str = "ip link add br0 type bridge
ip link add port0 type veth peer name host0
ip link set port0 master br0
ethtool -K port0 tso off gso off gro off
tc qdisc add dev port0 root tbf rate 1gbit burst 16k limit 128k
tc qdisc add dev port0 clsact
tc filter add dev port0 egress bpf da bytecode '1,6 0 0 0'";

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|uids| uids.split_whitespace().nth(1) == Some("0"))
}

/// Returns the path of the daemon to run.
fn evbd(args: &LabArgs) -> Result<PathBuf> {
    let evbd = match &args.evbd {
        Some(path) => path.clone(),
        None => build()?,
    };
    evbd.canonicalize().with_context(|| format!("{}", evbd.display()))
}

fn build() -> Result<PathBuf> {
    let root = repo::root();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status =
        Command::new(cargo).args(["build", "--release", "-p", "evb-daemon"]).current_dir(&root).status()?;
    if !status.success() {
        bail!("evbd does not build");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/evbd"))
}

fn hold(shape: Shape, loss: f64) -> Result<bool> {
    let network = Network::up(shape)?;
    network.loss("b1", loss)?;
    println!("{shape} is up; hosts {}; Ctrl-C takes it down", network.hosts().join(" "));
    let mut before = 0;
    while !interrupt::asked() {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let drops = network.ports()?.values().map(|port| port.drops).sum();
        if drops != before {
            println!("{drops} packets dropped");
            before = drops;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
