//! [`GrantPaths`]: the ways from a grant to its data that sums are made for: assumed, stated, or measured by stage.

#[cfg(test)]
mod tests;

use std::{io::Read as _, path::Path, time::Duration};

use serde_json::Value;

/// What tells something where nothing was measured: a spinning loop and a fast switch, a good host, a busy one.
const ASSUMED: [Duration; 3] =
    [Duration::from_micros(20), Duration::from_micros(60), Duration::from_micros(200)];

/// A summary of the largest system is shorter.
const LONGEST_FILE: u64 = 64 << 20;

/// What takes longer is no way of a grant, µs: an hour, as in the summary's histograms.
const LONGEST: f64 = 3.6e9;

/// The ways from a grant to its data that sums are made for.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantPaths {
    times: Vec<Duration>,
    origin: PathOrigin,
}

/// Where they come from.
#[derive(Clone, Debug, PartialEq)]
pub enum PathOrigin {
    /// Nothing is known.
    Assumed,
    /// Somebody said so.
    Stated,
    /// From a file: the median and the 99th percentile.
    Measured(MeasuredPath),
}

/// A way from a grant to its data that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPath {
    /// The file that has it.
    pub file: String,
    /// To the first byte: the median.
    pub p50: Duration,
    /// To the first byte: the 99th percentile.
    pub p99: Duration,
    /// Its stages in order, those that are known.
    pub stages: Vec<PathStage>,
}

/// A part of the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStage {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile; `None` of what is derived.
    pub p99: Option<Duration>,
    /// What makes it shorter.
    pub remedy: &'static str,
}

/// Why a file gives no grant path: the operator's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is not there, too long, or may not be read.
    #[error("--path {file}: {reason}; {GIVE}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// It is something else.
    #[error("--path {file}: it has no object grant_path_us; {GIVE}")]
    Foreign {
        /// The file.
        file: String,
    },
    /// It is damaged, or not by evb.
    #[error("--path {file}: grant_path_us.{key} is no time in µs up to an hour; {GIVE}")]
    Malformed {
        /// The file.
        file: String,
        /// What makes no sense.
        key: String,
    },
    /// No grant was given.
    #[error(
        "--path {file}: no grant was measured; take the summary of a run that built events, of the process with the supervisor"
    )]
    Nothing {
        /// The file.
        file: String,
    },
    /// Doctor could not see the network.
    #[error(
        "--path {file}: it leaves out the network, as no other host answered ping; name one: evbd doctor --peer ADDRESS --json"
    )]
    WithoutNetwork {
        /// The file.
        file: String,
    },
}

/// What would be right.
const GIVE: &str = "give the summary of a run (evbd run --summary FILE) or what evbd doctor --json prints";

/// Key, name, remedy.
const STAGES: [(&str, &str, &str); 5] = [
    ("builder_write", "builder's write", "a core of its own for the builder (`core`), `precedence`"),
    (
        "source_wake_up",
        "source's wake-up",
        "sources' cores that are kept awake (`keep_awake`), and not shared; less coalescing",
    ),
    (
        "source_answer",
        "source's answer",
        "a core of its own for the source (`core`), quicker readout, a larger MTU",
    ),
    (
        "builder_wake_up",
        "builder's wake-up",
        "the builder's core kept awake (`keep_awake`) and its own (`core`, `precedence`); less coalescing",
    ),
    (
        "derived_rest",
        "wire, switch, queues (derived)",
        "fewer hops, less coalescing; after a run that filled its port this is the port's own queue, and no fault",
    ),
];

impl GrantPaths {
    /// Those that are assumed where nothing is known.
    pub fn assumed() -> Self {
        Self { times: ASSUMED.to_vec(), origin: PathOrigin::Assumed }
    }

    /// What somebody states, or what is assumed if that is nothing.
    pub fn stated(times: &[Duration]) -> Self {
        if times.is_empty() {
            return Self::assumed();
        }
        Self { times: times.to_vec(), origin: PathOrigin::Stated }
    }

    /// What the command line says: a file, or times, or nothing.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn of(file: Option<&Path>, stated: &[Duration]) -> Result<Self, PathError> {
        let Some(file) = file else { return Ok(Self::stated(stated)) };
        MeasuredPath::read(file).map(Self::from)
    }

    /// Times from a grant to its data, at least one.
    pub fn times(&self) -> &[Duration] {
        &self.times
    }

    /// The longest, which decides.
    pub fn longest(&self) -> Duration {
        self.times.iter().copied().max().unwrap_or_default()
    }

    /// Where they come from.
    pub fn origin(&self) -> &PathOrigin {
        &self.origin
    }

    /// The path that was measured, if one was.
    pub fn measured(&self) -> Option<&MeasuredPath> {
        match &self.origin {
            PathOrigin::Measured(measured) => Some(measured),
            PathOrigin::Assumed | PathOrigin::Stated => None,
        }
    }

    /// What they are, in words.
    pub fn word(&self) -> &'static str {
        match self.origin {
            PathOrigin::Assumed => "assumed",
            PathOrigin::Stated => "stated",
            PathOrigin::Measured(_) => "measured",
        }
    }
}

impl From<MeasuredPath> for GrantPaths {
    fn from(measured: MeasuredPath) -> Self {
        Self { times: vec![measured.p50, measured.p99], origin: PathOrigin::Measured(measured) }
    }
}

impl MeasuredPath {
    /// Reads the summary of a run, or what doctor printed.
    fn read(path: &Path) -> Result<Self, PathError> {
        let file = path.display().to_string();
        let mut text = String::new();
        let read = std::fs::File::open(path)
            .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_string(&mut text))
            .map_err(|error| error.to_string());
        let read = read.and_then(|length| match length as u64 > LONGEST_FILE {
            true => Err("longer than any summary".to_owned()),
            false => Ok(()),
        });
        match read {
            Ok(()) => Self::parse(file, &text),
            Err(reason) => Err(PathError::Unreadable { file, reason }),
        }
    }

    /// Takes the path from the text of `file`.
    ///
    /// # Errors
    /// [`PathError`]: it is no summary, or has no path.
    pub fn parse(file: String, text: &str) -> Result<Self, PathError> {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Self::of(file, &value["grant_path_us"]),
            Err(error) => Err(PathError::Unreadable { file, reason: format!("not JSON: {error}") }),
        }
    }

    /// The same of `grant_path_us`.
    fn of(file: String, value: &Value) -> Result<Self, PathError> {
        if !value.is_object() {
            return Err(PathError::Foreign { file });
        }
        let time = |stage: &str, quantile: &str| -> Result<Duration, PathError> {
            let given = value[stage][quantile].as_f64().filter(|micros| (0.0..=LONGEST).contains(micros));
            let malformed =
                || PathError::Malformed { file: file.clone(), key: format!("{stage}.{quantile}") };
            given.map(|micros| Duration::from_secs_f64(micros / 1e6)).ok_or_else(malformed)
        };
        let (p50, p99) = (time("first_byte", "p50")?, time("first_byte", "p99")?);
        let mut stages = Vec::with_capacity(STAGES.len());
        for (key, name, remedy) in STAGES {
            if value[key].is_null() {
                continue;
            }
            let p99 = if value[key]["p99"].is_null() { None } else { Some(time(key, "p99")?) };
            stages.push(PathStage { key, name, p50: time(key, "p50")?, p99, remedy });
        }
        if p99.is_zero() {
            return Err(PathError::Nothing { file });
        }
        if value["with_network"] == false {
            return Err(PathError::WithoutNetwork { file });
        }
        Ok(Self { file, p50, p99: p99.max(p50), stages })
    }

    /// The stage that takes longest.
    pub fn slowest(&self) -> Option<&PathStage> {
        self.stages.iter().max_by_key(|stage| stage.p50)
    }
}
