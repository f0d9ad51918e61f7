//! `source.input`: the origin of a source's fragments.

use std::path::PathBuf;

use evb_core::{
    id::SourceId,
    source::{BeforeStart, MAX_FRONT_ENDS},
    units::Bytes,
};
use evb_file::RunChoice;

use super::{
    endpoint::Endpoint,
    section::Section,
    trigger::{MulticastGroup, read_group},
};

/// The origin of a source's fragments.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Synthetic fragments, with content that builders can check.
    Generator {
        /// Size of the fragments.
        size: FragmentSize,
        /// Part of the content that the builder checks.
        check: ContentCheck,
        /// Event that causes a fragment to be made.
        on: MadeOn,
    },
    /// Fragments that are read from a file, which is repeated without end.
    Replay {
        /// Path of the file, relative to the current directory.
        path: PathBuf,
        /// Format of the file, with the part of the file that this source replays.
        format: ReplayFormat,
        /// Event that causes a fragment to be read.
        on: MadeOn,
    },
    /// Fragments that front-end processes send over TCP, each after its length.
    Tcp {
        /// Address at which the source listens for front ends.
        listen: Endpoint,
        /// Treatment of fragments that arrive before the run has started; `None`: discarded under
        /// run control, and else kept.
        before_start: Option<BeforeStart>,
        /// Number of front ends that should be connected; 0 if they may come and go.
        front_ends: u32,
    },
    /// Fragments that front-end processes send over a Unix socket, in the format of [`Input::Tcp`].
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// As in [`Input::Tcp`].
        before_start: Option<BeforeStart>,
        /// As in [`Input::Tcp`].
        front_ends: u32,
    },
}

/// The distribution of the sizes of generated fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentSize {
    /// All fragments have the same size.
    Fixed(Bytes),
    /// Normally distributed sizes, limited to the range from zero to `max_fragment`.
    Gaussian {
        /// Mean size.
        mean: Bytes,
        /// Standard deviation of the size.
        sigma: Bytes,
    },
    /// Log-normally distributed sizes, limited to `max_fragment`.
    LogNormal {
        /// Mean of the size itself, not of the size's logarithm.
        mean: Bytes,
        /// Standard deviation of the size itself, not of the size's logarithm.
        sigma: Bytes,
    },
}

impl FragmentSize {
    /// Returns the mean size.
    pub fn mean(self) -> Bytes {
        match self {
            Self::Fixed(size) => size,
            Self::Gaussian { mean, .. } | Self::LogNormal { mean, .. } => mean,
        }
    }

    /// Returns a size that practically no fragment exceeds: the mean plus eight standard
    /// deviations.
    pub fn most(self) -> Bytes {
        match self {
            Self::Fixed(size) => size,
            Self::Gaussian { mean, sigma } | Self::LogNormal { mean, sigma } => mean + sigma * 8,
        }
    }
}

/// The part of a generated fragment's content that the builder checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCheck {
    /// The stamp at the start of the fragment.
    Stamp,
    /// Every byte of the fragment.
    Full,
}

/// The event that causes an input to make a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeOn {
    /// The supervisor's decision on the trigger has arrived.
    Decision,
    /// The multicast packet of the trigger has arrived.
    Multicast(MulticastGroup),
}

/// The format of a replayed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayFormat {
    /// KM3NeT timeslices.
    Km3net {
        /// Position of the source's optical module in each timeslice, counted from 0.
        module: u32,
    },
    /// An evb event file.
    Evb {
        /// Id of the recorded source whose fragments are replayed.
        source: SourceId,
        /// The run to replay, if the files are of several.
        run: Option<RunChoice>,
    },
}

impl Input {
    /// Returns the mean payload of a fragment; `None` if the configuration does not determine it.
    pub fn mean_size(&self) -> Option<Bytes> {
        match self {
            Self::Generator { size, .. } => Some(size.mean()),
            Self::Replay { .. } | Self::Tcp { .. } | Self::Unix { .. } => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Generator,
    Replay,
    Tcp,
    Unix,
}

const KINDS: [(&str, Kind); 4] =
    [("generator", Kind::Generator), ("replay", Kind::Replay), ("tcp", Kind::Tcp), ("unix", Kind::Unix)];

const BEFORE_START: [(&str, BeforeStart); 2] =
    [("keep", BeforeStart::Keep), ("discard", BeforeStart::Discard)];

/// Reads the input of source `id`; `group` is the multicast group of the supervisor's trigger, if
/// the trigger is of this kind.
pub(super) fn read(mut section: Section<'_>, id: u16, group: Option<&MulticastGroup>) -> Option<Input> {
    let kind = section.choice("kind", &KINDS);
    let kind = section.need("kind", kind, "for example kind = \"generator\"")?;
    let input = match kind {
        Kind::Generator => generator(&mut section, group),
        Kind::Replay => replay(&mut section, id, group),
        Kind::Tcp => {
            let listen = section.endpoint("listen");
            let listen = section.need("listen", listen, "for example listen = \"127.0.0.1:7201\"");
            let (before_start, front_ends) = front_ends(&mut section);
            listen.map(|listen| Input::Tcp { listen, before_start, front_ends })
        }
        Kind::Unix => {
            let path = socket_path(&mut section);
            let (before_start, front_ends) = front_ends(&mut section);
            path.map(|path| Input::Unix { path, before_start, front_ends })
        }
    };
    section.finish();
    input
}

/// Reads the keys of all inputs with front ends.
fn front_ends(section: &mut Section<'_>) -> (Option<BeforeStart>, u32) {
    let before_start = section.choice("before_start", &BEFORE_START);
    let front_ends = section.whole("front_ends", 0..=u64::from(MAX_FRONT_ENDS)).unwrap_or(1);
    (before_start, front_ends as u32)
}

/// Reads the path of a Unix socket. The kernel limits the path to 108 bytes, of which the last is 0
/// (unix(7), `sun_path`).
fn socket_path(section: &mut Section<'_>) -> Option<PathBuf> {
    const LONGEST: usize = 107;
    let path = path(section)?;
    let length = path.as_os_str().len();
    if length > LONGEST {
        let reason = format!("the path of a socket has at most {LONGEST} bytes, and this one {length}");
        section.refuse("path", reason, "give a shorter one, for example below /run");
        return None;
    }
    Some(path)
}

/// Reads a required path.
pub(super) fn path(section: &mut Section<'_>) -> Option<PathBuf> {
    let text = section.text("path", "a path");
    let text = section.need("path", text, "the path")?;
    if text.is_empty() || text.contains('\0') {
        section.refuse(
            "path",
            "this is not a path",
            "write a path; a relative one starts at the current directory",
        );
        return None;
    }
    section.keep_place("path");
    Some(text.into())
}

fn generator(section: &mut Section<'_>, group: Option<&MulticastGroup>) -> Option<Input> {
    let size = if section.is_table("size") {
        section.table("size").and_then(distribution)
    } else {
        let size = section.bytes("size");
        section
            .need(
                "size",
                size,
                "for example size = \"1 kB\", or size = { mean = \"1 kB\", sigma = \"200 B\" }",
            )
            .map(FragmentSize::Fixed)
    };
    let checks = [("stamp", ContentCheck::Stamp), ("full", ContentCheck::Full)];
    let check = section.choice("check", &checks).unwrap_or(ContentCheck::Stamp);
    let on = made_on(section, group)?;
    Some(Input::Generator { size: size?, check, on })
}

fn distribution(mut section: Section<'_>) -> Option<FragmentSize> {
    let mean = section.some_bytes("mean");
    let mean = section.need("mean", mean, "for example mean = \"1 kB\"");
    let sigma = section.some_bytes("sigma");
    let sigma = section.need("sigma", sigma, "for example sigma = \"200 B\"");
    let log_normal =
        section.choice("distribution", &[("gaussian", false), ("log-normal", true)]).unwrap_or(false);
    section.finish();
    let (mean, sigma) = mean.zip(sigma)?;
    Some(if log_normal {
        FragmentSize::LogNormal { mean, sigma }
    } else {
        FragmentSize::Gaussian { mean, sigma }
    })
}

fn replay(section: &mut Section<'_>, id: u16, group: Option<&MulticastGroup>) -> Option<Input> {
    let path = path(section);
    let km3net = section.choice("format", &[("evb", false), ("km3net", true)]);
    let km3net = section.need("format", km3net, "format = \"evb\" or format = \"km3net\"");
    let module = section.whole("module", 0..=u64::from(u16::MAX));
    let run = replayed_run(section);
    let on = made_on(section, group)?;
    let format = if km3net? {
        let Some(module) = module.or_else(|| u64::from(id).checked_sub(1)) else {
            section.refuse(
                "module",
                "source 0 has no module before it",
                "name the module, for example module = 0",
            );
            return None;
        };
        ReplayFormat::Km3net { module: u32::try_from(module).ok()? }
    } else {
        let source = module.and_then(|module| u16::try_from(module).ok()).unwrap_or(id);
        ReplayFormat::Evb { source: SourceId::new(source), run: run? }
    };
    Some(Input::Replay { path: path?, format, on })
}

/// Reads the choice of the run that is replayed. The outer option is `None` if the choice is wrong.
fn replayed_run(section: &mut Section<'_>) -> Option<Option<RunChoice>> {
    let Some(text) = section.text("run", "run = \"42\" or run = \"5eedcafe\"") else {
        return (!section.has("run")).then_some(None);
    };
    match text.parse() {
        Ok(run) => Some(Some(run)),
        Err(error) => {
            let remedy = "write the run number, or the first digits of the run id that `evbd dump` shows";
            section.refuse("run", format!("`{text}` is no run: {error}"), remedy);
            None
        }
    }
}

fn made_on(section: &mut Section<'_>, group: Option<&MulticastGroup>) -> Option<MadeOn> {
    let multicast = section.choice("on", &[("decision", false), ("multicast", true)]).unwrap_or(false);
    if !multicast {
        return Some(MadeOn::Decision);
    }
    let own = read_group(section, "trigger_group");
    let group = own.or_else(|| group.cloned().filter(|_| !section.has("trigger_group")));
    let example =
        "trigger_group = \"239.1.2.3:7002\", or make the supervisor's trigger of kind \"multicast\"";
    section.need("trigger_group", group, example).map(MadeOn::Multicast)
}
