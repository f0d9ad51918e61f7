//! What programs see of a detector: status, metrics, files.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use evb_file::Episode;
use serde_json::Value;

use crate::{detector::Detector, system};

/// Prints, from Python, the episodes of a run, the events in which fragments of each source agree
/// and disagree, those whose payload is of another source, run or event, and those without it.
const READER: &str = "
import json, struct, sys, evb_read
[run], _ = evb_read.runs_of(evb_read.files_at(sys.argv[1:]))
found = {'agree': {}, 'disagree': {}, 'foreign': {}, 'missing': {}}
def note(kind, source, event):
    found[kind].setdefault(source, []).append(event)
for path in run.files:
    with evb_read.EventFile(path) as file:
        for event in file:
            for part in event.fragments:
                if part.aligned is not None:
                    note('agree' if part.aligned else 'disagree', part.source, event.id)
                if struct.unpack('<3Q', part.payload[:24]) != (part.source, 1, event.id):
                    note('foreign', part.source, event.id)
            for source in event.missing:
                note('missing', source, event.id)
            assert event.aligned == all(part.aligned is not False for part in event.fragments)
found['episodes'] = [[one.source, one.since, one.shift, one.kind] for one in run.alignment]
print(json.dumps(found))
";

/// Returns what Python finds in the files; `None` where there is no Python.
pub(super) fn read_by_python(detector: &Detector) -> Option<Value> {
    evb_needs::granted(evb_needs::programs(&["python3"]))?;
    let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python");
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", READER]);
    let output = python.arg(detector.path("out")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the report of `evbd verify --align`.
pub(super) fn verified(detector: &Detector) -> Value {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_evbd"));
    verify.args(["verify", "--json", "--align"]).arg(detector.path("tools.toml")).arg(detector.path("out"));
    serde_json::from_slice(&verify.output().unwrap().stdout).unwrap()
}

/// Returns the episodes in a report of `evbd verify --align`.
pub(super) fn episodes_of(report: &Value) -> Vec<Episode> {
    serde_json::from_value(report["alignment"]["episodes"].clone()).unwrap()
}

/// Views of a run under way.
#[derive(Debug)]
pub(super) struct View {
    /// The document that the page shows.
    pub(super) status: Value,
    pub(super) metrics: String,
    /// The output of `evbd ctl status`.
    pub(super) table: String,
    pub(super) log: String,
}

impl View {
    pub(super) fn new(detector: &Detector) -> Self {
        let table = system::ctl(&detector.path(""), &["status"]).stdout;
        Self {
            status: serde_json::from_str(&get(detector, "/v1/status")).unwrap(),
            metrics: get(detector, "/metrics"),
            table: String::from_utf8(table).unwrap(),
            log: detector.log(),
        }
    }

    /// Returns the problems of a source.
    pub(super) fn problems(&self, source: u16) -> Vec<&Value> {
        let all = self.status["problems"].as_array().unwrap().iter();
        all.filter(|problem| problem["subject"] == named(source)).collect()
    }

    pub(super) fn has_metric(&self, line: &str) -> bool {
        self.metrics.lines().any(|found| found == line)
    }
}

/// Returns a source as messages name it.
pub(super) fn named(source: u16) -> String {
    format!("source {source} (crate {source})")
}

/// Returns what run control answers at a path.
fn get(detector: &Detector, path: &str) -> String {
    let mut stream = TcpStream::connect(detector.control()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}
