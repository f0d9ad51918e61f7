//! [`System`]: the settings of an evb system on the lab's hosts, from which the TOML file for all
//! its processes is written.

use std::{
    fmt::Write as _,
    ops::Range,
    path::{Path, PathBuf},
};

pub use evb_net::pacing::Transport;

use super::{
    disk,
    network::{Shape, Trunk, address},
};

/// Returns the lane bytes in a full packet: the MTU without the headers of IP (20), TCP (20) and
/// TCP timestamps (12), or without those of IP (20), UDP (8) and evb's datagrams (40).
fn segment(transport: Transport, shape: Shape) -> f64 {
    let headers = match transport {
        Transport::Tcp => 52.0,
        Transport::Udp => 68.0,
    };
    shape.mtu as f64 - headers
}

/// Largest grant if the budget is configured, in bytes: eleven packets, as with a typical port
/// buffer. The default, a sixteenth of the budget, would be larger.
const CHUNK: u64 = 15_912;

/// Shaping mode of the lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Credit,
    /// Credit that a builder gives to one source at a time.
    Sequential,
    /// A fixed window for each lane, in bytes.
    Window(u64),
    /// Token buckets with the default rate: lanes share 95 % of the port equally.
    TokenBucket,
    None,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Sequential => "sequential",
            Self::Window(_) => "window",
            Self::TokenBucket => "token-bucket",
            Self::None => "none",
        }
    }
}

/// Kind of trigger; rates are in events per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    Fast,
    Periodic(f64),
    Poisson(f64),
    /// Announcements that another program sends to [`GROUP`] from the supervisor's host; sources
    /// make their fragments when an announcement arrives.
    Multicast,
}

/// Multicast group and port of trigger announcements.
pub const GROUP: &str = "239.77.1.1:7002";

/// Event files and journal of a run, and its number of events.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Folder of each builder's event files, in the order of the builders.
    pub sinks: Vec<PathBuf>,
    pub journal: PathBuf,
    /// Number of events of the run; `None` if the run lasts until it is stopped.
    pub events: Option<u64>,
}

/// A filter of every builder that keeps one event in `keep_every`.
#[derive(Clone, Debug)]
pub struct ThirdLevel {
    pub keep_every: u32,
    /// Folder for the folders of the builders' event files.
    pub folder: PathBuf,
}

/// Settings of an evb system.
#[derive(Clone, Debug)]
pub struct System {
    pub transport: Transport,
    pub mode: Mode,
    pub trigger: Trigger,
    /// Number of slots per builder; `None` if evbd computes it.
    pub slots: Option<u32>,
    /// Payload bytes of every fragment.
    pub fragment: u64,
    /// True if evbd only warns of an inadmissible load instead of refusing to run.
    pub warn: bool,
    /// Rate limit of the lanes to each builder, in the order of the builders, in bit/s of L2
    /// frames; empty if lanes are not limited.
    pub rates: Vec<u64>,
    /// Value of `offload` in evbd's configuration: what enforces the rate limits, such as
    /// `software`.
    pub offload: &'static str,
    /// Guaranteed rates of the traffic classes data, control, monitoring and other, in bit/s.
    pub classes: Option<[u64; 4]>,
    /// Budget of a builder: the bytes of L2 frames that may be in flight to it. The budget is
    /// configured for a path that holds more data than a switch port; with `None`, evbd derives the
    /// budget from the port buffer.
    pub budget: Option<u64>,
    /// True if the configuration gives the builders' host names, which hosts may resolve to
    /// different addresses.
    pub named: bool,
    /// Value of `check` in evbd's configuration: how builders check the bytes of a fragment.
    pub check: &'static str,
    /// Event files and journal; with `None`, builders discard events, and the run has a fixed
    /// duration.
    pub storage: Option<Storage>,
    /// Path of the file with the key that all processes share; `None` without security.
    pub key: Option<PathBuf>,
    /// Value of `policy` in evbd's configuration: the policy by which events are assigned to
    /// builders.
    pub policy: &'static str,
    /// True if the host of the last source does not take part in the system.
    pub spares_last_source: bool,
    /// Additional lines of `[shaping]` in evbd's configuration.
    pub more_shaping: String,
    /// True if the configuration describes the network's trunks.
    pub knows_trunks: bool,
    /// Additional lines of `[network]` in evbd's configuration.
    pub more_network: String,
    /// Filter and event files of the builders; with `None`, builders discard all events.
    pub third_level: Option<ThirdLevel>,
}

impl System {
    /// Returns a system over TCP that triggers as fast as the builders take events, with evbd's
    /// default number of slots.
    pub fn new(mode: Mode, fragment: u64) -> Self {
        Self {
            transport: Transport::Tcp,
            mode,
            trigger: Trigger::Fast,
            slots: None,
            fragment,
            warn: false,
            rates: Vec::new(),
            offload: "software",
            classes: None,
            budget: None,
            named: false,
            check: "stamp",
            storage: None,
            key: None,
            policy: "round-robin",
            spares_last_source: false,
            more_shaping: String::new(),
            knows_trunks: true,
            more_network: String::new(),
            third_level: None,
        }
    }

    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    pub fn trigger(self, trigger: Trigger) -> Self {
        Self { trigger, ..self }
    }

    pub fn slots(self, slots: u32) -> Self {
        Self { slots: Some(slots), ..self }
    }

    pub fn warn(self) -> Self {
        Self { warn: true, ..self }
    }

    pub fn rates(self, rates: &[u64], offload: &'static str) -> Self {
        Self { rates: rates.to_vec(), offload, ..self }
    }

    pub fn classes(self, guaranteed: [u64; 4]) -> Self {
        Self { classes: Some(guaranteed), ..self }
    }

    pub fn budget(self, bytes: u64) -> Self {
        Self { budget: Some(bytes), ..self }
    }

    /// Makes the configuration give builders by host name: `builder-1` and so on.
    pub fn named(self) -> Self {
        Self { named: true, ..self }
    }

    pub fn key(self, key: &Path) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub fn without_key(self) -> Self {
        Self { key: None, ..self }
    }

    /// Adds lines to the section `[shaping]` of the configuration.
    pub fn shaped(self, lines: &str) -> Self {
        Self { more_shaping: lines.to_owned(), ..self }
    }

    /// Adds lines to the section `[network]` of the configuration.
    pub fn networked(self, lines: &str) -> Self {
        Self { more_network: format!("{lines}\n"), ..self }
    }

    pub fn third_level(self, third_level: ThirdLevel) -> Self {
        Self { third_level: Some(third_level), ..self }
    }

    /// Leaves the network's trunks out of the configuration.
    pub fn without_trunks(self) -> Self {
        Self { knows_trunks: false, ..self }
    }

    pub fn without_last_source(self) -> Self {
        Self { spares_last_source: true, ..self }
    }

    /// Returns the number of sources that take part in the system.
    pub fn sources(&self, shape: Shape) -> u16 {
        shape.sources - u16::from(self.spares_last_source)
    }

    pub fn storage(self, storage: Storage) -> Self {
        Self { storage: Some(storage), ..self }
    }

    pub fn policy(self, policy: &'static str) -> Self {
        Self { policy, ..self }
    }

    /// Makes builders check every payload byte.
    pub fn checked(self) -> Self {
        Self { check: "full", ..self }
    }

    /// Returns the TOML configuration. All processes read the same file; the command line selects
    /// their roles.
    pub fn config(&self, shape: Shape, seconds: f64) -> anyhow::Result<String> {
        let trigger = match self.trigger {
            Trigger::Fast => "{ kind = \"as-fast-as-possible\" }".to_owned(),
            Trigger::Periodic(rate) => format!("{{ kind = \"periodic\", rate = \"{rate:.3} Hz\" }}"),
            Trigger::Poisson(rate) => format!("{{ kind = \"poisson\", rate = \"{rate:.3} Hz\" }}"),
            Trigger::Multicast => {
                let interface = address("sup")?;
                format!("{{ kind = \"multicast\", group = \"{GROUP}\", interface = \"{interface}\" }}")
            }
        };
        let shaping = self.shaping();
        let port_buffer = match self.budget {
            Some(_) => String::new(),
            None => format!("port_buffer = \"{} B\"\n", shape.port_part()),
        };
        let (length, journal) = match &self.storage {
            Some(Storage { journal, events, .. }) => (
                events.map(|events| format!("events = {events}")).unwrap_or_default(),
                format!("journal = \"{}\"\n", journal.display()),
            ),
            None => (format!("duration = \"{seconds} s\""), String::new()),
        };
        let security = match &self.key {
            Some(key) => format!("mode = \"psk\"\nkey_file = \"{}\"", key.display()),
            None => "mode = \"none\"".to_owned(),
        };
        let slots = self.slots.map(|slots| format!("slots = {slots}\n")).unwrap_or_default();
        let mut toml = format!(
            "[run]\nnumber = 1\n{length}\nseed = 1\n\n\
             [supervisor]\nlisten = \"{}:7000\"\ntrigger = {trigger}\n{slots}policy = \"{}\"\n{journal}\n\
             [network]\ntransport = \"{}\"\nlink_rate = \"{} Mbit/s\"\n{port_buffer}mtu = {}\n\
             congestion_control = \"cubic\"\nadmission = \"{}\"\n{}\n\
             {}[shaping]\n{shaping}\n\n[security]\n{security}\n",
            address("sup")?,
            self.policy,
            self.transport.word(),
            shape.rate / 1_000_000,
            shape.mtu,
            if self.warn { "warn" } else { "refuse" },
            self.more_network,
            if self.knows_trunks { trunks(shape) } else { String::new() },
        );
        self.write_roles(&mut toml, shape)?;
        Ok(toml)
    }

    /// Writes the sections of all sources and builders.
    fn write_roles(&self, toml: &mut String, shape: Shape) -> anyhow::Result<()> {
        for i in 1..=self.sources(shape) {
            let (bind, size) = (address(&format!("s{i}"))?, self.fragment);
            write!(toml, "\n[[source]]\nid = {i}\nbind = \"{bind}\"\n")?;
            let check = self.check;
            let on = match self.trigger {
                Trigger::Multicast => {
                    format!(", on = \"multicast\", trigger_group = \"{GROUP}\", interface = \"{bind}\"")
                }
                _ => String::new(),
            };
            writeln!(
                toml,
                "input = {{ kind = \"generator\", size = \"{size} B\", check = \"{check}\"{on} }}\nmax_fragment = \"{size} B\"\nclock = {{ rate = \"125 MHz\", bits = 48 }}"
            )?;
        }
        for j in 1..=shape.builders {
            let listen = if self.named { format!("builder-{j}") } else { address(&format!("b{j}"))? };
            let place = usize::from(j) - 1;
            let stored = self.storage.as_ref().and_then(|storage| storage.sinks.get(place).cloned());
            let filtered = self.third_level.as_ref().map(|level| disk::folder(&level.folder, j));
            let sink = match stored.or(filtered) {
                Some(path) => format!("{{ kind = \"file\", path = \"{}\" }}", path.display()),
                None => "{ kind = \"null\" }".to_owned(),
            };
            write!(toml, "\n[[builder]]\nid = {j}\nlisten = \"{listen}:7101\"\nsink = {sink}\n")?;
            if let Some(ThirdLevel { keep_every, .. }) = self.third_level {
                writeln!(toml, "filter = {{ kind = \"prescale\", keep_every = {keep_every} }}")?;
            }
            if let Some(rate) = self.rates.get(place) {
                writeln!(toml, "rate = \"{rate} bit/s\"")?;
            }
        }
        Ok(())
    }

    /// Returns the lines of the section `[shaping]`.
    fn shaping(&self) -> String {
        let mut shaping = match self.mode {
            Mode::Credit => "mode = \"credit\"".to_owned(),
            Mode::Sequential => "mode = \"credit\"\nsources_at_once = 1".to_owned(),
            Mode::Window(bytes) => format!("mode = \"window\"\nwindow = \"{bytes} B\""),
            Mode::TokenBucket => "mode = \"token-bucket\"".to_owned(),
            Mode::None => "mode = \"none\"".to_owned(),
        };
        if !self.more_shaping.is_empty() {
            shaping += &format!("\n{}", self.more_shaping);
        }
        if let Some(budget) = self.budget {
            shaping += &format!("\nbudget = \"{budget} B\"\nchunk = \"{CHUNK} B\"");
        }
        if !self.rates.is_empty() {
            shaping += &format!("\nrate_counts = \"buffer\"\noffload = \"{}\"", self.offload);
        }
        if let Some(guaranteed) = self.classes {
            shaping += "\n\n[shaping.classes]";
            for (class, rate) in ["data", "control", "monitoring", "other"].iter().zip(guaranteed) {
                shaping += &format!("\n{class} = {{ guaranteed = \"{rate} bit/s\" }}");
            }
        }
        shaping
    }

    /// Returns the time that all L2 frames of an event take through one port, in seconds.
    pub fn wire_time(&self, shape: Shape) -> f64 {
        let segment = segment(self.transport, shape);
        let frames = (self.fragment as f64 / segment).ceil();
        let bytes = self.fragment as f64 + frames * (shape.frame() - segment);
        bytes * f64::from(shape.sources) * 8.0 / shape.rate as f64
    }
}

/// Returns the sections of the configuration that describe the network's trunks.
fn trunks(shape: Shape) -> String {
    let trunks = shape.trunks();
    let ids = |word: &str, ids: &Range<u16>| {
        (!ids.is_empty()).then(|| format!("\"{word} {}-{}\"", ids.start, ids.end - 1))
    };
    let section = |(position, trunk): (usize, &Trunk)| {
        let beyond = trunks.iter().filter(|other| other.above == Some(position));
        let members: Vec<String> = (ids("sources", &trunk.sources).into_iter())
            .chain(ids("builders", &trunk.builders))
            .chain(beyond.map(|other| format!("\"{}\"", other.name)))
            .collect();
        format!(
            "[[network.trunk]]\nname = \"{}\"\nrate = \"{} Mbit/s\"\nbuffer = \"{} B\"\nmembers = [{}]\n\n",
            trunk.name,
            trunk.link.rate / 1_000_000,
            trunk.link.buffer,
            members.join(", ")
        )
    };
    trunks.iter().enumerate().map(section).collect()
}

/// Length of the header that a lane puts in front of each fragment, in bytes.
const FRAGMENT_HEADER: f64 = 16.0;

/// Returns the largest payload rate that one port can carry, in bit/s, if all packets are full and
/// contain only fragments of this size with their headers. At an MTU of 1500 the port counts L2
/// frames of 1514 bytes; on a real line such a packet takes 1538 bytes, which reduces the payload
/// by the same share for every transport.
pub fn port_capacity(shape: Shape, transport: Transport, fragment: u64) -> f64 {
    shape.rate as f64 * payload_share(shape, transport, fragment)
}

/// Returns the largest payload rate that the whole network can carry, in bit/s, under the
/// conditions of [`port_capacity`].
pub fn network_capacity(shape: Shape, transport: Transport, fragment: u64) -> f64 {
    shape.carries() * payload_share(shape, transport, fragment)
}

/// Returns the payload as a part of the L2 bytes of full packets.
fn payload_share(shape: Shape, transport: Transport, fragment: u64) -> f64 {
    let payload = fragment as f64 / (fragment as f64 + FRAGMENT_HEADER);
    segment(transport, shape) / shape.frame() * payload
}

/// Returns the largest window of a lane, in bytes, with which the windows of all sources together,
/// headers included, fit into nine tenths of a port's buffer.
pub fn safe_window(shape: Shape) -> u64 {
    let share = 0.9 * shape.port_buffer as f64 / f64::from(shape.sources);
    (share * segment(Transport::Tcp, shape) / shape.frame() / 100.0).floor() as u64 * 100
}

#[cfg(test)]
mod tests;
