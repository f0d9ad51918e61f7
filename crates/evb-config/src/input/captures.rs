//! Inputs that replay a capture of packets.

use std::{fmt, path::PathBuf};

use evb_core::flow::{FlowEnd, FlowFilter, ReplaySpeed};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{
    Input,
    datagrams::{GivenOnLoss, GivenPackets, datagram_layout},
};
use crate::{
    forms::{As, FilePath, Form, KEY, wrong},
    frame::GivenFrame,
    section::Section,
};

/// Sender or receiver of the packets of a capture.
pub(crate) struct End;

impl Form for End {
    type Value = FlowEnd;
    const EXAMPLE: &'static str = "192.168.10.16:24";

    fn parse(text: &str) -> Result<FlowEnd, String> {
        let remedy = "write \"192.168.10.16\", \"24\" or \"192.168.10.16:24\"; captures have no host names";
        let reason = || format!("`{text}` is neither an IP address, nor a port, nor both");
        text.parse().map_err(|_| wrong(reason(), remedy))
    }
}

/// The speed of a replay.
pub(crate) struct Speed(ReplaySpeed);

impl Default for Speed {
    fn default() -> Self {
        Self(ReplaySpeed::Times(1.0))
    }
}

/// The word for a replay as fast as the source takes fragments.
pub(crate) const MAX: &str = "max";

const REMEDY: &str = "write a number above zero without quotes, such as speed = 1.0, or speed = \"max\"";

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpeedVisitor).map(Self)
    }
}

struct SpeedVisitor;

impl Visitor<'_> for SpeedVisitor {
    type Value = ReplaySpeed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("a number", REMEDY))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<ReplaySpeed, E> {
        if number.is_finite() && number > 0.0 {
            return Ok(ReplaySpeed::Times(number));
        }
        Err(E::custom(wrong(format_args!("this is not a possible value of `{KEY}`"), REMEDY)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<ReplaySpeed, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<ReplaySpeed, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<ReplaySpeed, E> {
        if word == MAX {
            return Ok(ReplaySpeed::Max);
        }
        let reason = format_args!("`{KEY}` is neither a number nor \"max\"");
        Err(E::custom(wrong(reason, REMEDY)))
    }
}

/// The keys of an input that replays a capture.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(crate) struct GivenCapture {
    /// The pcap or pcapng file.
    #[serde(default, with = "As::<FilePath>")]
    path: Option<PathBuf>,
    /// Instead of `path`, the files of a capture that has several, in their order.
    #[cfg_attr(test, schemars(length(min = 1)))]
    paths: Option<Vec<String>>,
    /// The speed of the replay: a multiple of that at which the packets were captured, or `"max"`,
    /// as fast as the source takes frames.
    ///
    /// Default: 1.0
    #[serde(default)]
    speed: Speed,
    /// The sender of the packets that are used: its address, its port, or both.
    ///
    /// Default: all senders
    #[serde(default, with = "As::<End>")]
    from: Option<FlowEnd>,
    /// The receiver of the packets that are used: its address, its port, or both.
    ///
    /// Default: all receivers
    #[serde(default, with = "As::<End>")]
    to: Option<FlowEnd>,
    /// The [layout of the frames](#frame) that the board sends. Without `length`, `payload` and
    /// `delimiter`, a frame ends with its datagram, and TCP connections are not used.
    frame: GivenFrame,
    /// The [packets](#packets) of which a fragment consists.
    ///
    /// Default: none: each datagram has whole frames
    packets: Option<GivenPackets>,
    /// The treatment of a fragment of which packets were lost.
    ///
    /// Default: `"drop"`
    on_loss: Option<GivenOnLoss>,
}

impl GivenCapture {
    /// Returns the input, after checks.
    pub(super) fn checked(self, source: &Section<'_>) -> Option<Input> {
        let Self { path, paths, speed, from, to, frame, packets, on_loss } = self;
        let paths = files(source, path, paths);
        let (frame, on_loss) = datagram_layout(source, frame, packets, on_loss)?;
        let filter = FlowFilter { from: from.unwrap_or_default(), to: to.unwrap_or_default() };
        Some(Input::Capture { paths: paths?, speed: speed.0, filter, on_loss, frame })
    }
}

/// Returns the files of a capture.
fn files(source: &Section<'_>, path: Option<PathBuf>, paths: Option<Vec<String>>) -> Option<Vec<PathBuf>> {
    match (source.has("input.path"), source.has("input.paths")) {
        (true, true) => {
            let reason = "`path` and `paths` are both given, but `path` names the only file of a capture";
            source.refuse("input.paths", reason, "remove `path`, or `paths`");
            return None;
        }
        (false, false) => {
            source.refuse_lack("input.path");
            return None;
        }
        _ => {}
    }
    let Some(paths) = paths else { return Some(vec![path?]) };
    if paths.is_empty() || paths.iter().any(|path| FilePath::parse(path).is_err()) {
        let reason = "`paths` has no file, or one whose name is empty or has a NUL character";
        source.refuse("input.paths", reason, "write paths = [\"first.pcap\", \"second.pcap\"]");
        return None;
    }
    Some(paths.into_iter().map(PathBuf::from).collect())
}
