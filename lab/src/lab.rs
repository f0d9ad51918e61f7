//! The network lab: network namespaces simulate hosts on a switch whose ports have small buffers.
//! `evbd` runs on this network with one process per role, and scenarios check bounds on the
//! results. Unlike loopback, the simulated network drops packets under incast. Two cores carry
//! about 1 Gbit/s in total in single packets, and ten times as much in trains of packets
//! (segmentation offload).

mod incast;
mod against_plain;
mod fill;
mod trunks;
mod calibrate;
mod stops;
mod frozen;
mod dice;
mod relay;
mod flood;
pub(crate) mod traffic;
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

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use checkout::SKIPPED;
use clap::{Args, Subcommand, ValueEnum};
use lab_base::{
    bench::Bench,
    interrupt,
    network::{self, Link, Network, Shape, Tree},
    system::Transport,
};
use papers::{atlas, babar, hotspot, mixed, pipe, qos, rcnp, stream};

use crate::uml;

#[derive(Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    scenario: Scenario,
    /// Folder for configurations, logs, run summaries and reports.
    #[arg(long, global = true, default_value = "target/lab")]
    out: PathBuf,
    /// Duration of each run, in seconds.
    #[arg(long, global = true, default_value_t = 10.0)]
    seconds: f64,
    /// Number of runs of a case whose bound is on a median.
    #[arg(long, global = true, default_value_t = 5)]
    runs: usize,
    /// Path of the evbd to test; by default, evbd is built in release mode.
    #[arg(long, global = true)]
    evbd: Option<PathBuf>,
    /// Run only the cases of the scenario whose name contains this text.
    #[arg(long, global = true, default_value = "")]
    only: String,
    /// Transport of the lanes, in `incast`, `fill`, `babar`, `pressure`, `chaos`, `soak`, `deaths`,
    /// `trunks`, `hotspot` and `rcnp --cascade`; the default is TCP, and both in the last six.
    #[arg(long, global = true)]
    transport: Option<Transports>,
    /// Keep the hosts' segmentation offloads on, so that trains of packets of at most 16 KiB cross
    /// the network whole and two cores carry 10 Gbit/s. For `up` and `incast`; always on in `fill`,
    /// `calibrate` and `stops`.
    #[arg(long, global = true)]
    trains: bool,
    /// Largest IP packet (MTU), in bytes. For `up`, `incast`, `fill` and `stops`.
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
    /// Incast of 8 and 32 sources into one switch port: goodput, drops and latency of every shaping
    /// mode.
    Incast(incast::IncastArgs),
    /// The README's figure: credit and Linux's TCP alone with 4 to 32 sources, with error bars.
    AgainstPlain,
    /// Throughput of ports of 10 Gbit/s in trains of packets: evb takes turns with `iperf3` and
    /// ZeroMQ; compares goodput, drops, processor time and latency.
    Fill(fill::FillArgs),
    /// A check of the lab itself with trains of packets: buffer of an idle port, count of drops,
    /// and goodput of `iperf3`.
    Calibrate(calibrate::CalibrateArgs),
    /// Sources at a 10 Gbit/s port that are stopped for 5 ms and for 5 s, and a competing busy loop
    /// on each core.
    Stops(stops::StopsArgs),
    /// The BaBar experiment's event builder, with 22 sources, 15 builders and 32 kB events, at its
    /// design load and at the limit of the network.
    Babar,
    /// The RCNP event builder, with 4 sources and 4 builders that request data from one source at a
    /// time: event rates by event size.
    Rcnp(rcnp::RcnpArgs),
    /// The pseudo-trigger of the ATLAS study: triggers by multicast across the switch to 1 and 3
    /// sources, with 1 and 3 builders.
    Atlas(atlas::AtlasArgs),
    /// Networks of two and three switches whose trunks are the bottleneck: drops, and goodput
    /// beside that of `iperf3`, with and without the trunks in the configuration.
    Trunks(trunks::TrunksArgs),
    /// Eight sources behind two trunks and three builders, at ports that serve the trunks in turn:
    /// shares of raw streams and of evb, beside the simulator's.
    Hotspot,
    /// A source process that freezes (SIGSTOP) in the middle of a run.
    Frozen,
    /// Quality of service: systems of 1x1, 1x3 and 3x1 with a rate limit for each destination,
    /// enforced by evb or by the kernel.
    Qos(qos::QosArgs),
    /// Mixed traffic: event data, a bulk transfer and control messages share the link of one host,
    /// with and without traffic classes; or event data and office traffic share a trunk.
    Mixed(mixed::MixedArgs),
    /// Comparison of the shaping modes credit, window, token bucket and none, for 4 to 32 sources.
    Modes,
    /// Accuracy of `evbd probe-buffer` on ports whose buffers are known, and on a port that cannot
    /// be overflowed.
    Probe,
    /// Goodput over UDP and TCP at full speed while packets are lost at random, and while bits are
    /// flipped.
    Loss,
    /// Time until a single lost packet is repaired.
    Recovery,
    /// Throughput of two cores over loopback, for evb over UDP, evb over TCP, and iperf3.
    Speed,
    /// `evb-bench stream` beside `iperf3`, in turn, on links of 100 Mbit/s and 1 Gbit/s.
    Stream {
        /// Measure the rate over the size of the records instead, without `iperf3`.
        #[arg(long)]
        records: bool,
    },
    /// TCP and UDP over a wide-area line that loses, repeats, reorders, delays and corrupts
    /// packets, simulated under User-Mode Linux.
    Wan {
        /// Run the short version of CI: UDP only, and a few seconds per case.
        #[arg(long)]
        short: bool,
        /// Used internally: run on the current kernel instead of starting User-Mode Linux.
        #[arg(long, hide = true)]
        here: bool,
    },
    /// One flow over a round trip of 198 ms at 20 Mbit/s, from a host that is ten times faster than
    /// the path, from one that is as fast, and with a pace, simulated under User-Mode Linux.
    Pipe {
        /// Used internally: run on the current kernel instead of starting User-Mode Linux.
        #[arg(long, hide = true)]
        here: bool,
    },
    /// Random faults from a seed, one after the other, over TCP and UDP: no event may be lost or
    /// duplicated, and the run must end.
    Chaos(chaos::ChaosArgs),
    /// A long run near the limit of the network, with a fault every minute: checks the event counts
    /// and the memory of all processes.
    Soak(chaos::SoakArgs),
    /// A builder that is killed at full rate, and a supervisor that is killed and restarted.
    Deaths,
    /// A frozen source, slow sinks and a slow link: checks the rates of unaffected peers, the
    /// causes of dead time, and the memory.
    Pressure(pressure::PressureArgs),
    /// Attacks of a hostile host on a system that uses a pre-shared key, and the cost of the key in
    /// throughput.
    Intruders,
    /// The short subset of scenarios that CI runs.
    Smoke,
    /// Bring a lab network up and keep it until Ctrl-C; meanwhile `ip netns exec evb-s1 …` runs a
    /// command on host s1.
    Up {
        sources: u16,
        builders: u16,
        /// Rate of every port, in Mbit/s.
        mbit: u64,
        /// Buffer of a switch port, in KiB.
        kib: u64,
        /// Rate of a trunk to a second switch, which connects the builders, in Mbit/s.
        #[arg(requires = "trunk_kib")]
        trunk_mbit: Option<u64>,
        /// Buffer of each end of the trunk, in KiB.
        trunk_kib: Option<u64>,
        /// Random loss of packets towards builder host b1, in percent.
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
    },
    /// Remove the network namespaces and processes of a lab that was killed.
    Down,
}

impl LabArgs {
    /// Returns the requested transports, or the default transports of the scenario.
    fn transports(&self) -> &'static [Transport] {
        self.transport.unwrap_or_else(|| self.scenario.usual_transports()).all()
    }

    /// Runs a scenario with its own arguments under User-Mode Linux for at most `limit` seconds,
    /// and returns its exit code, or that of a skipped test.
    fn elsewhere<S: AsRef<str>>(&self, scenario: &[S], limit: f64) -> Result<u8> {
        let own = std::env::current_exe().context("where is this program?")?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut command = vec![text(&own), "lab".to_owned()];
        command.extend(scenario.iter().map(|word| word.as_ref().to_owned()));
        command.push("--here".to_owned());
        for (option, value) in [
            ("--evbd", text(&checkout::evbd(self.evbd.as_deref())?)),
            ("--out", text(&self.out)),
            ("--seconds", self.seconds.to_string()),
            ("--runs", self.runs.to_string()),
            ("--only", self.only.clone()),
        ] {
            command.extend([option.to_owned(), value]);
        }
        uml::under(&command, Duration::from_secs_f64(limit), "768M")
    }
}

impl Scenario {
    /// Returns the arguments of `rcnp` if that scenario runs under User-Mode Linux.
    fn rcnp_elsewhere(&self) -> Option<&rcnp::RcnpArgs> {
        if let Self::Rcnp(rcnp) = self { Some(rcnp).filter(|rcnp| rcnp.is_elsewhere()) } else { None }
    }

    /// Returns the default transports of a scenario.
    fn usual_transports(&self) -> Transports {
        match self {
            Self::Chaos(_) | Self::Soak(_) | Self::Deaths => Transports::Both,
            Self::Trunks(_) | Self::Hotspot | Self::Rcnp(_) => Transports::Both,
            _ => Transports::Tcp,
        }
    }
}

/// Runs one scenario, and returns the exit code: 0 if every bound holds that noise cannot break, 1
/// if one fails, [`SKIPPED`] if this machine cannot create the network.
pub(crate) fn run(args: &LabArgs) -> Result<u8> {
    if let Scenario::Wan { short, here: false } = args.scenario {
        return wan::elsewhere(args, short);
    }
    if let Some(rcnp) = args.scenario.rcnp_elsewhere() {
        let (words, limit) = rcnp::elsewhere(rcnp, args.transports(), args.seconds);
        return args.elsewhere(&words, limit);
    }
    if let Scenario::Pipe { here: false } = args.scenario {
        return args.elsewhere(&["pipe"], pipe::limit(args.runs, args.seconds));
    }
    let lacks = if matches!(args.scenario, Scenario::Down) { None } else { lacks() };
    match (lacks, &args.scenario) {
        (None, _) => run_here(args).map(|holds| u8::from(!holds)),
        // User-Mode Linux provides all that the lab needs, so a lack is an error and no reason to
        // skip.
        (Some(reason), Scenario::Wan { .. } | Scenario::Pipe { .. }) => {
            bail!("the lab cannot run here: {reason}")
        }
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
    if let Scenario::Up { sources, builders, mbit, kib, trunk_mbit, trunk_kib, loss } = args.scenario {
        let link = |mbit: u64, kib: u64| Link { rate: mbit * 1_000_000, buffer: kib * 1024 };
        let Link { rate, buffer: port_buffer } = link(mbit, kib);
        let trunk = trunk_mbit.zip(trunk_kib).map(|(mbit, kib)| Tree::Two(link(mbit, kib)));
        let tree = trunk.unwrap_or_default();
        let LabArgs { mtu, trains, .. } = *args;
        return hold(Shape { sources, builders, rate, port_buffer, mtu, trains, tree }, loss);
    }
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create the folder {}; give another --out", args.out.display()))?;
    let bench = Bench {
        out: args.out.canonicalize()?,
        evbd: checkout::evbd(args.evbd.as_deref())?,
        seconds: args.seconds,
        runs: args.runs,
        only: args.only.clone(),
        transports: args.transports(),
        trains: args.trains,
        mtu: args.mtu,
    };
    let report = match &args.scenario {
        Scenario::Incast(args) => incast::run(&bench, args)?,
        Scenario::AgainstPlain => against_plain::run(&bench)?,
        Scenario::Fill(args) => fill::run(&bench, args)?,
        Scenario::Calibrate(args) => calibrate::run(&bench, args)?,
        Scenario::Stops(args) => stops::run(&bench, args)?,
        Scenario::Babar => babar::run(&bench)?,
        Scenario::Rcnp(args) => rcnp::run(&bench, args)?,
        Scenario::Atlas(args) => atlas::run(&bench, args)?,
        Scenario::Trunks(args) => trunks::run(&bench, args)?,
        Scenario::Hotspot => hotspot::run(&bench)?,
        Scenario::Frozen => frozen::run(&bench)?,
        Scenario::Qos(args) => qos::run(&bench, args)?,
        Scenario::Mixed(args) => mixed::run(&bench, args)?,
        Scenario::Modes => modes::run(&bench)?,
        Scenario::Probe => probe::run(&bench)?,
        Scenario::Wan { short, .. } => wan::run(&bench, *short)?,
        Scenario::Pipe { .. } => pipe::run(&bench)?,
        Scenario::Chaos(args) => chaos::run(&bench, args)?,
        Scenario::Loss => loss::run(&bench)?,
        Scenario::Recovery => recovery::run(&bench)?,
        Scenario::Speed => speed::run(&bench)?,
        Scenario::Stream { records: false } => stream::run(&bench)?,
        Scenario::Stream { records: true } => stream::records::run(&bench)?,
        Scenario::Soak(args) => chaos::soak(&bench, args)?,
        Scenario::Intruders => intruders::run(&bench)?,
        Scenario::Deaths => deaths::run(&bench)?,
        Scenario::Pressure(args) => pressure::run(&bench, args)?,
        Scenario::Smoke | Scenario::Up { .. } | Scenario::Down => smoke::run(&bench)?,
    };
    report.finish(&bench.out)
}

/// Tries all features of the network in a namespace, and returns what this machine lacks; `None` if
/// the lab can run.
fn lacks() -> Option<String> {
    if !is_root() {
        return Some("network namespaces and queueing disciplines need root: run this as root".into());
    }
    let missing = |tool: &&str| Command::new(tool).arg("--help").output().is_err();
    if let Some(tool) = ["ip", "tc", "ethtool", "unshare"].iter().find(|tool| missing(tool)) {
        return Some(format!("{tool} is not installed: apt-get install iproute2 ethtool util-linux"));
    }
    let tried = Command::new("unshare").args(["--net", "sh", "-ec", PROBE]).output().ok()?;
    let said = String::from_utf8_lossy(&tried.stderr);
    (!tried.status.success()).then(|| {
        format!(
            "this kernel lacks a network device or queueing discipline that the lab needs: {}",
            said.trim()
        )
    })
}

/// A shell script that creates one of every kind of device, queueing discipline and filter of which
/// a lab network consists.
const PROBE: &str = "ip link add br0 type bridge
ip link add port0 type veth peer name host0
ip link set port0 master br0
ip link add br1 type bridge
ip link add near type veth peer name far
ip link set near master br0
ip link set far master br1
ethtool -K port0 tso off gso off gro off
tc qdisc add dev port0 root tbf rate 1gbit burst 16k limit 128k
tc qdisc add dev port0 clsact
tc filter add dev port0 egress bpf da bytecode '1,6 0 0 0'
tc qdisc add dev near root handle 1: htb default 2
tc class add dev near parent 1: classid 1:2 htb rate 1gbit quantum 1514
tc qdisc add dev near parent 1:2 bfifo limit 64k
tc filter add dev near parent 1: protocol ip u32 match ip src 10.77.1.1/32 flowid 1:2";

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|uids| uids.split_whitespace().nth(1) == Some("0"))
}

fn hold(shape: Shape, loss: f64) -> Result<bool> {
    let network = Network::up(shape)?;
    network.loss("b1", loss)?;
    println!("{shape} is up with the hosts {}; Ctrl-C takes it down", network.hosts().join(" "));
    let mut before = 0;
    while !interrupt::asked() {
        std::thread::sleep(Duration::from_millis(200));
        let drops = network.ports()?.values().map(|port| port.drops).sum();
        if drops != before {
            println!("the ports have dropped {drops} packets so far");
            before = drops;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
