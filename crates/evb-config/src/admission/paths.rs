//! [`GrantPaths`]: the times from a grant to its data for which admission control computes its
//! sums. The times are assumed, stated by the operator, or measured stage by stage.

#[cfg(test)]
mod tests;

use std::{io::Read as _, path::Path, time::Duration};

use serde_json::Value;

/// Times from a grant to its data that are assumed without a measurement: for spinning receivers
/// behind a fast switch, for a good host, and for a busy host.
const ASSUMED: [Duration; 3] =
    [Duration::from_micros(20), Duration::from_micros(60), Duration::from_micros(200)];

/// Largest number of bytes that are read from a file; even the summary of the largest possible
/// system is shorter.
const LONGEST_FILE: u64 = 64 << 20;

/// The longest plausible time in µs: an hour, which is also the upper end of the histograms in a
/// run's summary.
const LONGEST: f64 = 3.6e9;

/// The times from a grant to its data for which sums are computed.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantPaths {
    times: Vec<Duration>,
    origin: PathOrigin,
}

/// The origin of the times from a grant to its data.
#[derive(Clone, Debug, PartialEq)]
pub enum PathOrigin {
    /// The times are assumed, because there is no measurement and no statement.
    Assumed,
    /// The operator stated the times.
    Stated,
    /// The times were read from a file with measurements: the median and the 99th percentile.
    Measured(MeasuredPath),
}

/// A measured path from a grant to its data.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredPath {
    /// Name of the file with the measurement.
    pub file: String,
    /// Median time from a grant to the first byte of its data.
    pub p50: Duration,
    /// 99th percentile of the time from a grant to the first byte of its data.
    pub p99: Duration,
    /// Stages that the file contains, in the order of the path.
    pub stages: Vec<PathStage>,
}

/// A stage of the path from a grant to its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStage {
    /// Name of the stage in JSON.
    pub key: &'static str,
    /// Name of the stage for people.
    pub name: &'static str,
    /// Median duration of the stage.
    pub p50: Duration,
    /// 99th percentile of the stage's duration; `None` for a derived stage.
    pub p99: Option<Duration>,
    /// Measures that make the stage shorter.
    pub remedy: &'static str,
}

/// The reason why a file gives no grant path; the operator can correct each of these errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The file does not exist, is too long, or this process may not read it.
    #[error("--path {file}: {reason}; {GIVE}")]
    Unreadable {
        /// Name of the file.
        file: String,
        /// Description of the error.
        reason: String,
    },
    /// The file contains no object `grant_path_us`.
    #[error("--path {file}: the file has no measured times, as it has no object grant_path_us; {GIVE}")]
    Foreign {
        /// Name of the file.
        file: String,
    },
    /// The file is damaged, or another program wrote it.
    #[error("--path {file}: grant_path_us.{key} is not a time in µs of at most an hour; {GIVE}")]
    Malformed {
        /// Name of the file.
        file: String,
        /// Key of the implausible value.
        key: String,
    },
    /// The run that wrote the file gave no grants.
    #[error(
        "--path {file}: no builder asked for data in that run, so nothing was measured; give the summary of a run that built events, from the process with the supervisor"
    )]
    Nothing {
        /// Name of the file.
        file: String,
    },
    /// `evbd doctor` found no peer with which it could measure the network.
    #[error(
        "--path {file}: the measurement lacks the network, because no other host answered ping; name one: evbd doctor --peer ADDRESS --json"
    )]
    WithoutNetwork {
        /// Name of the file.
        file: String,
    },
}

/// Advice for error messages: the files that contain a grant path.
const GIVE: &str = "give the summary of a run (evbd run --summary FILE) or the output of evbd doctor --json";

/// Key, name and remedy of each stage.
const STAGES: [(&str, &str, &str); 5] = [
    ("builder_write", "builder's write", "a core of its own for the builder (`cpu`), `precedence`"),
    (
        "source_wake_up",
        "source's wake-up",
        "sources' cores that are kept awake (`keep_awake`), and not shared; less coalescing of interrupts (`ethtool -C`)",
    ),
    (
        "source_answer",
        "source's answer",
        "a core of its own for the source (`cpu`), quicker readout, a larger MTU",
    ),
    (
        "builder_wake_up",
        "builder's wake-up",
        "the builder's core kept awake (`keep_awake`) and its own (`cpu`, `precedence`); less coalescing of interrupts (`ethtool -C`)",
    ),
    (
        "derived_rest",
        "wire, switch, queues (derived)",
        "fewer switches on the way, less coalescing of interrupts (`ethtool -C`); after a run that filled its port this is the port's own queue, and no fault",
    ),
];

impl GrantPaths {
    /// Returns the assumed times.
    pub fn assumed() -> Self {
        Self { times: ASSUMED.to_vec(), origin: PathOrigin::Assumed }
    }

    /// Returns the operator's stated times, or the assumed times if none are stated.
    pub fn stated(times: &[Duration]) -> Self {
        if times.is_empty() {
            return Self::assumed();
        }
        Self { times: times.to_vec(), origin: PathOrigin::Stated }
    }

    /// Returns the times that the command line determines: the times in `file`, else the `stated`
    /// times, else the assumed times.
    ///
    /// # Errors
    /// [`PathError`]: the file gives no grant path.
    pub fn of(file: Option<&Path>, stated: &[Duration]) -> Result<Self, PathError> {
        let Some(file) = file else { return Ok(Self::stated(stated)) };
        MeasuredPath::read(file).map(Self::from)
    }

    /// Returns the times from a grant to its data; the list is never empty.
    pub fn times(&self) -> &[Duration] {
        &self.times
    }

    /// Returns the longest time from a grant to its data, from which `evbd plan` derives its
    /// advice.
    pub fn longest(&self) -> Duration {
        self.times.iter().copied().max().unwrap_or_default()
    }

    /// Returns the origin of the times from a grant to its data.
    pub fn origin(&self) -> &PathOrigin {
        &self.origin
    }

    /// Returns the measured path from a grant to its data; `None` if the times are assumed or
    /// stated.
    pub fn measured(&self) -> Option<&MeasuredPath> {
        match &self.origin {
            PathOrigin::Measured(measured) => Some(measured),
            PathOrigin::Assumed | PathOrigin::Stated => None,
        }
    }

    /// Returns the origin of the times as a word for JSON.
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
    /// Reads the summary of a run or the JSON output of `evbd doctor`.
    fn read(path: &Path) -> Result<Self, PathError> {
        let file = path.display().to_string();
        let mut text = String::new();
        let read = std::fs::File::open(path)
            .and_then(|opened| opened.take(LONGEST_FILE + 1).read_to_string(&mut text))
            .map_err(|error| error.to_string());
        let read = read.and_then(|length| match length as u64 > LONGEST_FILE {
            true => Err(format!(
                "the file has more than {} MiB, the most that a summary can have",
                LONGEST_FILE >> 20
            )),
            false => Ok(()),
        });
        match read {
            Ok(()) => Self::parse(file, &text),
            Err(reason) => Err(PathError::Unreadable { file, reason }),
        }
    }

    /// Parses the path from a grant to its data in `text`, which came from `file`.
    ///
    /// # Errors
    /// [`PathError`]: the text is not the summary of a run, or lacks the measured times from a
    /// grant to its data.
    pub fn parse(file: String, text: &str) -> Result<Self, PathError> {
        match serde_json::from_str::<Value>(text) {
            Ok(value) => Self::of(file, &value["grant_path_us"]),
            Err(error) => {
                Err(PathError::Unreadable { file, reason: format!("the file is not JSON: {error}") })
            }
        }
    }

    /// Reads the path from the JSON object `grant_path_us`.
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

    /// Returns the stage with the longest median.
    pub fn slowest(&self) -> Option<&PathStage> {
        self.stages.iter().max_by_key(|stage| stage.p50)
    }
}
