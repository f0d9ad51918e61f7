//! `source.input`: the origin of a source's fragments.

mod sizes;
mod hooks;
mod boards;
mod datagrams;
mod captures;
mod moments;

use std::{net::SocketAddr, path::PathBuf};

use evb_core::{
    flow::{FlowFilter, ReplaySpeed},
    framing::{FrameLayout, OnLoss},
    id::SourceId,
    source::{BeforeStart, MAX_FRONT_ENDS},
    units::Bytes,
};
use evb_file::RunChoice;
use serde::Deserialize;

use super::{
    endpoint::Endpoint,
    fault::{GivenFault, PlantedFault},
    forms::{Address, As, FilePath, Form, Host, Whole, Word, Words, one, wrong},
    frame::GivenFrame,
    section::Section,
    trigger::{Group, MulticastGroup},
};
use boards::{check_front_ends, connected};
use captures::GivenCapture;
#[cfg(test)]
pub(super) use captures::{End, MAX, Speed};
use datagrams::GivenDatagrams;
#[cfg(test)]
pub(super) use datagrams::SenderAddress;
pub use datagrams::{DatagramPlace, Sender};
use hooks::GivenHook;
pub(crate) use hooks::check_program;
pub use hooks::{Action, Hook, Hooks};
use moments::made_on;
pub use sizes::FragmentSize;
use sizes::GivenSize;

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
        /// Fault that the source makes on purpose.
        fault: Option<PlantedFault>,
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
        /// run control or with [`Hooks::on_start`], and else kept.
        before_start: Option<BeforeStart>,
        /// Number of front ends that should be connected; 0 if they may come and go.
        front_ends: u32,
        /// Layout of the frames that boards send; `None`: front ends speak evb's own protocol.
        frame: Option<FrameLayout>,
    },
    /// Fragments that front-end processes send over a Unix socket, in the format of [`Input::Tcp`].
    Unix {
        /// Path of the socket.
        path: PathBuf,
        /// As in [`Input::Tcp`].
        before_start: Option<BeforeStart>,
        /// As in [`Input::Tcp`].
        front_ends: u32,
        /// As in [`Input::Tcp`].
        frame: Option<FrameLayout>,
    },
    /// Frames of a board to which the source connects, or datagrams of boards.
    Board {
        /// The place where the board is found.
        place: BoardPlace,
        /// As in [`Input::Tcp`].
        before_start: Option<BeforeStart>,
        /// Layout of the frames that the board sends.
        frame: FrameLayout,
    },
    /// Frames in a capture of packets, which is replayed once in each run.
    Capture {
        /// Paths of the files, in their order, relative to the current directory.
        paths: Vec<PathBuf>,
        /// Speed of the replay.
        speed: ReplaySpeed,
        /// The packets that are used.
        filter: FlowFilter,
        /// Treatment of a fragment of which datagrams were lost.
        on_loss: OnLoss,
        /// Layout of the frames that the board sends.
        frame: FrameLayout,
    },
}

/// The place where a board is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoardPlace {
    /// The board listens at a TCP address.
    Tcp(Endpoint),
    /// A Unix socket, a FIFO, a character device or a file.
    Path(PathBuf),
    /// The board sends datagrams.
    Udp(DatagramPlace),
}

/// The part of a generated fragment's content that the builder checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ContentCheck {
    /// The stamp at the start of the fragment.
    #[default]
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
        /// With `km3net`, the position of the optical module in each timeslice, from 0; default: id
        /// − 1. With `evb`, the recorded source whose fragments are replayed; default: id.
        module: u32,
    },
    /// An evb event file.
    Evb {
        /// Id of the recorded source whose fragments are replayed.
        source: SourceId,
        /// With `evb`, the run whose files are replayed, if the directory has files of several.
        run: Option<RunChoice>,
    },
}

impl Input {
    /// Returns the mean payload of a fragment; `None` if the configuration does not determine it.
    pub fn mean_size(&self) -> Option<Bytes> {
        match self {
            Self::Generator { size, .. } => Some(size.mean()),
            _ => self.fixed_size(),
        }
    }
}

/// The input as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(tag = "kind"))]
#[serde(rename = "kind of table", rename_all = "kebab-case")]
pub(super) enum GivenInput {
    /// Fragments that the source generates.
    #[cfg_attr(test, schemars(extend("dependencies" = { "trigger_group": on_multicast(), "interface": on_multicast() })))]
    Generator {
        /// The size of the fragments, or a distribution of sizes.
        size: GivenSize,
        /// The bytes of the generated payload that builders check: the first bytes, or every byte.
        ///
        /// Default: `"stamp"`
        #[serde(default)]
        check: ContentCheck,
        /// The moment at which the source makes a fragment: when the event's decision arrives, or
        /// when the trigger's datagram arrives.
        ///
        /// Default: `"decision"`
        #[serde(default)]
        on: Moment,
        /// The multicast group from which the source receives triggers.
        ///
        /// Default: the group of the supervisor's trigger
        #[serde(default, with = "As::<Group>")]
        trigger_group: Option<SocketAddr>,
        /// The network interface on which the source joins the group, by its address or name.
        #[serde(default, with = "As::<Host>")]
        interface: Option<String>,
        /// The [fault](#fault) of a board that the source imitates, for tests and tutorials.
        ///
        /// Default: none
        fault: Option<GivenFault>,
    },
    /// Fragments from a file, which the source reads again and again.
    #[cfg_attr(test, schemars(extend("dependencies" = { "trigger_group": on_multicast(), "interface": on_multicast() })))]
    Replay {
        /// The file.
        #[serde(with = "As::<FilePath>")]
        path: PathBuf,
        /// The format of the file: an evb event file, or KM3NeT timeslices.
        format: Format,
        /// With `km3net`, the position of the optical module in each timeslice, from 0; default: id
        /// − 1. With `evb`, the recorded source whose fragments are replayed; default: id.
        #[serde(default, with = "Whole::<0, 65_535>")]
        module: Option<u16>,
        /// With `evb`, the run whose files are replayed, if the directory has files of several.
        #[serde(default, with = "As::<Run>")]
        run: Option<RunChoice>,
        /// The moment at which the source makes a fragment: when the event's decision arrives, or
        /// when the trigger's datagram arrives.
        ///
        /// Default: `"decision"`
        #[serde(default)]
        on: Moment,
        /// The multicast group from which the source receives triggers.
        ///
        /// Default: the group of the supervisor's trigger
        #[serde(default, with = "As::<Group>")]
        trigger_group: Option<SocketAddr>,
        /// The network interface on which the source joins the group, by its address or name.
        #[serde(default, with = "As::<Host>")]
        interface: Option<String>,
    },
    /// Fragments from front ends that connect over TCP, or from a board that listens.
    #[cfg_attr(test, schemars(extend("oneOf" = [{ "required": ["listen"] }, { "required": ["connect", "frame"] }])))]
    Tcp {
        /// The address at which front ends connect.
        #[serde(default, with = "As::<Address>")]
        listen: Option<Endpoint>,
        /// Instead of `listen`, the address of a board that listens, to which the source connects.
        #[serde(default, with = "As::<Address>")]
        connect: Option<Endpoint>,
        /// The [layout of the frames](#frame) that the board sends.
        ///
        /// Default: none: front ends send length-prefixed fragments
        frame: Option<GivenFrame>,
        /// The treatment of fragments that arrive before the run has started.
        ///
        /// Default: `"discard"` under run control or with `on_start`, else `"keep"`
        #[serde(default, with = "As::<Word<BeforeStart>>")]
        before_start: Option<BeforeStart>,
        /// The number of front ends that should be connected; 0 if they may come and go.
        ///
        /// Default: 1
        #[serde(default = "one", with = "Whole::<0, { MAX_FRONT_ENDS as u64 }>")]
        front_ends: u32,
        /// The [action](#on_start-and-on_stop) for which the start of a run waits.
        on_start: Option<GivenHook>,
        /// The action after the end of a run.
        on_stop: Option<GivenHook>,
    },
    /// Fragments from front ends that connect to a Unix socket.
    Unix {
        /// The path of the socket.
        #[serde(with = "As::<FilePath>")]
        #[cfg_attr(test, schemars(length(max = LONGEST_SOCKET)))]
        path: PathBuf,
        /// The [layout of the frames](#frame) that the board sends.
        ///
        /// Default: none: front ends send length-prefixed fragments
        frame: Option<GivenFrame>,
        /// The treatment of fragments that arrive before the run has started.
        ///
        /// Default: `"discard"` under run control or with `on_start`, else `"keep"`
        #[serde(default, with = "As::<Word<BeforeStart>>")]
        before_start: Option<BeforeStart>,
        /// The number of front ends that should be connected; 0 if they may come and go.
        ///
        /// Default: 1
        #[serde(default = "one", with = "Whole::<0, { MAX_FRONT_ENDS as u64 }>")]
        front_ends: u32,
        /// The [action](#on_start-and-on_stop) for which the start of a run waits.
        on_start: Option<GivenHook>,
        /// The action after the end of a run.
        on_stop: Option<GivenHook>,
    },
    /// Frames that the source reads from a Unix socket that listens, a FIFO, a character device or
    /// a file.
    Stream {
        /// The path of the socket, FIFO, device or file.
        #[serde(with = "As::<FilePath>")]
        path: PathBuf,
        /// The [layout of the frames](#frame) that the board sends.
        frame: GivenFrame,
        /// The treatment of fragments that arrive before the run has started.
        ///
        /// Default: `"discard"` under run control or with `on_start`, else `"keep"`
        #[serde(default, with = "As::<Word<BeforeStart>>")]
        before_start: Option<BeforeStart>,
        /// The [action](#on_start-and-on_stop) for which the start of a run waits.
        on_start: Option<GivenHook>,
        /// The action after the end of a run.
        on_stop: Option<GivenHook>,
    },
    /// Datagrams that boards send over UDP.
    #[cfg_attr(test, schemars(extend("dependencies" = { "packets": with_counter() })))]
    Udp(Box<GivenDatagrams>),
    /// Frames in packets that `tcpdump` or Wireshark captured, from the start of the run on.
    #[cfg_attr(test, schemars(extend("oneOf" = [{ "required": ["path"] }, { "required": ["paths"] }], "dependencies" = { "packets": with_counter() })))]
    Pcap(Box<GivenCapture>),
}

/// Returns the schema of a generator or replay with the key `on = "multicast"`.
#[cfg(test)]
fn on_multicast() -> serde_json::Value {
    serde_json::json!({ "properties": { "on": { "const": "multicast" } }, "required": ["on"] })
}

/// Returns the schema of an input whose frames have a counter, as packets need it.
#[cfg(test)]
fn with_counter() -> serde_json::Value {
    serde_json::json!({ "properties": { "frame": { "required": ["counter"] } } })
}

/// The moment at which a source makes a fragment.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Moment {
    #[default]
    Decision,
    Multicast,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    Evb,
    Km3net,
}

impl Words for BeforeStart {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("keep", Self::Keep), ("discard", Self::Discard)]
    }
}

/// The choice of the run that is replayed.
pub(super) struct Run;

impl Form for Run {
    type Value = RunChoice;
    const EXAMPLE: &'static str = "42";

    fn parse(text: &str) -> Result<RunChoice, String> {
        let remedy =
            "write the run number, or at least the first 4 digits of the run id that `evbd dump` shows";
        let reason = || format!("`{text}` is neither a run number nor the beginning of a run id");
        text.parse().map_err(|_| wrong(reason(), remedy))
    }

    fn hint() -> String {
        "run = \"42\" or run = \"5eedcafe\"".to_owned()
    }
}

/// The longest path of a Unix socket: the kernel has room for 108 bytes, of which the last is 0
/// (unix(7), `sun_path`).
pub(super) const LONGEST_SOCKET: usize = 107;

impl GivenInput {
    /// Returns the input of source `id`, after checks; `shared` is the multicast group of the
    /// supervisor's trigger, if the trigger is of this kind.
    pub(super) fn checked(
        self,
        source: &Section<'_>,
        id: u16,
        shared: Option<&MulticastGroup>,
    ) -> Option<Input> {
        if !source.is_good("input.kind") {
            return None;
        }
        match self {
            Self::Generator { size, check, on, trigger_group, interface, fault } => {
                let on = made_on(source, on, (trigger_group, interface), shared)?;
                let fault = fault.map(|fault| fault.checked(source));
                Some(Input::Generator { size: size.into(), check, on, fault })
            }
            Self::Replay { path, format, module, run, on, trigger_group, interface } => {
                let on = made_on(source, on, (trigger_group, interface), shared)?;
                let format = match format {
                    Format::Km3net => ReplayFormat::Km3net { module: km3net_module(source, module, id)? },
                    Format::Evb => ReplayFormat::Evb { source: SourceId::new(module.unwrap_or(id)), run },
                };
                Some(Input::Replay { path, format, on })
            }
            Self::Tcp { listen, connect, frame, before_start, front_ends, .. } => {
                let has_frame = frame.is_some();
                let frame = frame.and_then(|frame| frame.checked(source));
                if source.has("input.connect") {
                    return connected(source, connect, frame, before_start);
                }
                let Some(listen) = listen else {
                    if !source.is_wrong("input.listen") {
                        source.refuse_lack("input.listen");
                    }
                    return None;
                };
                source.allow_host("input.listen", &listen.host);
                check_front_ends(source, front_ends, frame.as_ref());
                (has_frame == frame.is_some()).then_some(Input::Tcp {
                    listen,
                    before_start,
                    front_ends,
                    frame,
                })
            }
            Self::Stream { path, frame, before_start, .. } => {
                let frame = frame.checked(source)?;
                Some(Input::Board { place: BoardPlace::Path(path), before_start, frame })
            }
            Self::Udp(given) => given.checked(source),
            Self::Pcap(capture) => capture.checked(source),
            Self::Unix { path, frame, before_start, front_ends, .. } => {
                let has_frame = frame.is_some();
                let frame = frame.and_then(|frame| frame.checked(source));
                check_front_ends(source, front_ends, frame.as_ref());
                let length = path.as_os_str().len();
                if length > LONGEST_SOCKET {
                    let reason = format!(
                        "the path of a socket has at most {LONGEST_SOCKET} bytes, and this one {length}"
                    );
                    source.refuse("input.path", reason, "give a shorter path, for example below /run");
                }
                (has_frame == frame.is_some()).then_some(Input::Unix {
                    path,
                    before_start,
                    front_ends,
                    frame,
                })
            }
        }
    }
}

/// Returns the module of a source without a configured one: that before its id.
fn km3net_module(source: &Section<'_>, module: Option<u16>, id: u16) -> Option<u32> {
    let module = module.or_else(|| id.checked_sub(1));
    if module.is_none() {
        let reason = "source 0 needs a `module`: the default is the id minus 1, and there is no module -1";
        source.refuse("input.module", reason, "add for example module = 0");
    }
    module.map(u32::from)
}
