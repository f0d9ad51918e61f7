//! What a record of a run must be, whenever it is read: whole, as the schema says, and true of the
//! event files. A copy of a state directory is read as the directory itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use evb_core::{fragment::Checksum, rng::Rng};
use evb_file::{EventFile, files_at};
use serde_json::{Value, json};

use crate::{owed, run_records::disagreements};

/// Longest pause between two copies, in microseconds.
const PAUSE: u64 = 5000;

/// Keys that a closed record shares with its report.
const SHARED: [&str; 12] = [
    "run",
    "run_id",
    "begin",
    "end",
    "exit_code",
    "verdict",
    "events",
    "duration_s",
    "problems",
    "remarks",
    "annotation",
    "wall_clock",
];

/// The files of a directory with their bytes, by name.
pub(crate) type DirCopy = BTreeMap<String, Vec<u8>>;

/// Copies a directory at random instants, until it is dropped.
pub(crate) struct Copying {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<DirCopy>>>,
}

impl Copying {
    pub(crate) fn start(dir: PathBuf, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, mut rng) = (is_over.clone(), Rng::new(seed));
        let copies = move || {
            let mut copies = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let copy = copied(&dir);
                if copies.last() != Some(&copy) {
                    copies.push(copy);
                }
                thread::sleep(Duration::from_micros(rng.below(PAUSE)));
            }
            copies
        };
        Self { is_over, thread: Some(thread::spawn(copies)) }
    }

    /// Ends the copying; returns the copies that differ from the one before.
    pub(crate) fn end(mut self) -> Vec<DirCopy> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Returns a copy of a directory. A file that gets another name at this moment may be missing.
pub(crate) fn copied(dir: &Path) -> DirCopy {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let read =
        |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?));
    entries.filter_map(read).collect()
}

/// Returns the records in a copy, by name.
pub(crate) fn records(copy: &DirCopy) -> BTreeMap<&str, Value> {
    let named = copy.iter().filter(|(name, _)| name.ends_with(".json"));
    let whole = |(name, bytes): (&String, &Vec<u8>)| {
        serde_json::from_slice(bytes).unwrap_or_else(|error| {
            panic!("{name} is not whole: {error}: {}", String::from_utf8_lossy(bytes))
        })
    };
    named.map(|file| (file.0.as_str(), whole(file))).collect()
}

/// The event files of a directory as they are at the end, by path.
pub(crate) struct Files(BTreeMap<PathBuf, FileContent>);

struct FileContent {
    run_id: String,
    builder: u16,
    size: u64,
    sum: String,
    events: Vec<u64>,
}

impl Files {
    pub(crate) fn of(out: &Path) -> Self {
        let content = |path: PathBuf| {
            // What a killed builder has left may lack its header.
            let file = EventFile::open(&path).ok()?;
            let (bytes, header) = (fs::read(&path).unwrap(), file.header());
            let (size, sum) = (bytes.len() as u64, format!("{:016x}", Checksum::of(&bytes).number()));
            let (run_id, builder) = (header.run_id.to_string(), header.builder.unwrap().number());
            let events = file.events().filter_map(|event| Some(event.ok()?.id.number())).collect();
            Some((path, FileContent { run_id, builder, size, sum, events }))
        };
        Self(files_at(out).unwrap_or_default().into_iter().filter_map(content).collect())
    }

    /// Returns the events of a run.
    pub(crate) fn events(&self, record: &Value) -> BTreeSet<u64> {
        let of_run = self.0.values().filter(|file| record["run_id"] == file.run_id);
        of_run.flat_map(|file| &file.events).copied().collect()
    }

    /// Returns the paths of files of a run that its record does not have.
    pub(crate) fn missing(&self, record: &Value) -> Vec<&Path> {
        let listed: BTreeSet<&str> = listed(record).map(|file| file["path"].as_str().unwrap()).collect();
        let of_run = self.0.iter().filter(|(_, file)| record["run_id"] == file.run_id);
        of_run
            .map(|(path, _)| path.as_path())
            .filter(|path| !listed.contains(path.to_str().unwrap()))
            .collect()
    }

    /// Returns how the list of files in a record is not true of the files.
    fn contradictions(&self, record: &Value) -> Vec<String> {
        let is_true = |told: &Value| {
            let path = PathBuf::from(told["path"].as_str().unwrap());
            let Some(FileContent { run_id, builder, size, sum, events }) = self.0.get(&path) else {
                return false;
            };
            let events = events.len();
            let found = json!({ "builder": builder, "path": path, "size": size, "events": events, "crc64_nvme": sum });
            record["run_id"] == *run_id && *told == found
        };
        listed(record).filter(|told| !is_true(told)).map(|told| format!("{told} is not true")).collect()
    }
}

fn listed(record: &Value) -> impl Iterator<Item = &Value> {
    record["files"].as_array().into_iter().flatten()
}

/// Returns what is wrong with a record of a run whose files are in a directory.
pub(crate) fn faults(name: &str, record: &Value, out: &Path, files: &Files) -> Vec<String> {
    let mut found = disagreements(record);
    found.extend(files.contradictions(record));
    found.extend(falls(&record["series"]["points"]));
    let count = |key: &str| record["events"][key].as_u64().unwrap();
    let written: u64 = listed(record).map(|file| file["events"].as_u64().unwrap()).sum();
    let mut holds = |is_so: bool, what: &str| found.extend((!is_so).then(|| format!("not so: {what}")));
    let (run, id) = (record["run"].as_u64().unwrap(), record["run_id"].as_str().unwrap());
    holds(name == format!("run{run:06}-{}.json", &id[..8]), "number and id are those of the name");
    if record["closed"] == true {
        let report = &record["report"];
        for key in SHARED {
            holds(record[key] == report[key], &format!("{key} is that of the report"));
        }
        let settled: u64 =
            ["inhibited", "complete", "incomplete", "lost", "rejected"].map(count).iter().sum();
        holds(count("triggered") == settled, "each trigger has an outcome");
        holds(written <= count("written"), "sinks have accepted what is in closed files");
        found.extend(owed::contradictions(&[out.to_owned()], report));
    } else {
        let before = [&record["report"], &record["end"], &record["problems"][0], &record["remarks"][0]];
        holds(before.iter().all(|value| value.is_null()), "only a closed record has an outcome");
        holds(record["verdict"].as_str().unwrap().contains("was not recorded"), "the verdict says so");
        holds((&record["exit_code"], &record["duration_s"]) == (&json!(1), &json!(0.0)), "nor a good one");
        let built = (count("complete") + count("incomplete")) as usize;
        holds(built <= files.events(record).len(), "what counts as built is in the files");
    }
    found
}

/// Returns the points of a series after which a number falls.
fn falls(points: &Value) -> Vec<String> {
    let number = |point: &Value, key: &str| point[key].as_f64().unwrap();
    let keys = ["at_s", "triggered", "inhibited", "events", "payload_bytes"];
    let falls = |two: &&[Value]| keys.iter().any(|key| number(&two[0], key) > number(&two[1], key));
    let points = points.as_array().unwrap();
    points.windows(2).filter(falls).map(|two| format!("{} is followed by {}", two[0], two[1])).collect()
}

/// Returns what is wrong with copies, in their order: a record is never gone, opened again, older
/// than before or without a file that it had.
pub(crate) fn faults_of_copies(copies: &[DirCopy], out: &Path, files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = BTreeMap::<&str, Value>::new();
    for copy in copies {
        let now = records(copy);
        for (name, last) in &before {
            let Some(record) = now.get(name) else {
                found.push(format!("{name} is gone"));
                continue;
            };
            let text = |record: &Value| record["updated"].as_str().map(str::to_owned);
            let is_later =
                text(last) <= text(record) && last["closed"].as_bool() <= record["closed"].as_bool();
            let has_all = listed(last).all(|file| listed(record).any(|other| other == file));
            if !is_later || !has_all {
                found.push(format!("{name} was {last:#}, and is {record:#}"));
            }
        }
        for (name, record) in &now {
            if before.get(name) != Some(record) {
                found.extend(faults(name, record, out, files));
            }
        }
        before = now;
    }
    found
}
