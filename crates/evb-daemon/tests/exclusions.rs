//! Sources that are excluded, included or expendable in a system of processes under run control.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::{event::Cause, id::RunNumber};
use evb_file::{EventFile, Merge, OwingChange, Selection, existing_files};
use serde_json::Value;

/// Sources without a fragment, with their causes.
type Without = Vec<(u16, Cause)>;

/// The supervisor with its builders, and a process for each source.
struct System {
    dir: tempfile::TempDir,
    processes: BTreeMap<String, Child>,
}

impl System {
    /// Starts sources 1 to 3, and builders 1 and 2. `third` is further text of source 3.
    fn new(third: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(4);
        let out = dir.path().join("out");
        let builder = |id: usize| {
            format!(
                "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"{}\" }}\n",
                ports[1 + id],
                out.display()
            )
        };
        let text = format!(
            "[run]\nnumber = 1\n\
             [supervisor]\nlisten = \"127.0.0.1:{}\"\non_source_loss = \"wait\"\ndeadline = \"500 ms\"\n\
             trigger = {{ kind = \"periodic\", rate = \"1 kHz\" }}\n\
             [control]\nlisten = \"127.0.0.1:{}\"\n\
             [[source]]\nids = \"1-2\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
             [[source]]\nid = 3\nname = \"calo\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n{third}\n\
             {}{}",
            ports[0],
            ports[1],
            builder(1),
            builder(2)
        );
        std::fs::write(dir.path().join("evb.toml"), text).unwrap();
        let mut system = Self { dir, processes: BTreeMap::new() };
        system.launch("supervisor", &["supervisor", "builder:1", "builder:2"]);
        for source in ["source:1", "source:2", "source:3"] {
            system.launch(source, &[source]);
        }
        system
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("evb.toml")
    }

    fn launch(&mut self, name: &str, roles: &[&str]) {
        let mut command = signals::evbd();
        command.args(["run", "--quiet"]).arg(self.config());
        for role in roles {
            command.args(["--role", role]);
        }
        command.stderr(Stdio::null()).stdout(Stdio::null());
        self.processes.insert(name.to_owned(), command.spawn().unwrap());
    }

    fn signal(&self, name: &str, signal: &str) {
        signals::send(signal, [&self.processes[name]]);
    }

    fn kill(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
        command.arg("ctl").arg("--config").arg(self.config()).args(words).output().unwrap()
    }

    fn does(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refuses(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.does(&["status", "--json"])).unwrap()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let output = self.ctl(&["status", "--json"]);
            let status = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            if is(&status) {
                return status;
            }
            assert!(Instant::now() < until, "never {what}: {status:#}");
            sleep(Duration::from_millis(20));
        }
    }

    fn start(&self) {
        self.wait_for("ready", |status| status["ready"] == true);
        self.does(&["start"]);
    }

    /// Returns the number of events that are built.
    fn built(&self) -> u64 {
        self.status()["survey"]["events"]["complete"].as_u64().unwrap()
    }

    /// Stops the run, and returns the number of events in the files by their missing and absent
    /// sources.
    fn stop(&self) -> BTreeMap<(Without, Without), u64> {
        self.does(&["stop"]);
        let mut found = BTreeMap::new();
        for path in existing_files(&self.dir.path().join("out"), RunNumber::new(1)).unwrap() {
            for event in EventFile::open(&path).unwrap().events() {
                let event = event.unwrap();
                let of = |list: &[evb_core::event::MissingSource]| {
                    list.iter().map(|one| (one.source.number(), one.cause)).collect::<Vec<_>>()
                };
                *found.entry((of(&event.missing), of(&event.absent))).or_default() += 1;
            }
        }
        found
    }

    /// Returns the changes in the files of the run.
    fn changes(&self) -> Vec<OwingChange> {
        let merge = Merge::open(&[self.dir.path().join("out")], &Selection::default()).unwrap();
        merge.identity().changes.clone()
    }

    fn last_run(&self) -> Value {
        self.status()["last_run"].clone()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const GROUPS: &str = "[[group]]\nname = \"trio\"\nsources = \"1-3\"\nat_least = 3\n\
                      [[group]]\nname = \"calorimeter\"\nsources = \"3\"";

/// The run goes on by itself, unless an operator has paused it too.
#[test]
fn a_run_with_too_few_sources_of_a_group_pauses_by_itself() {
    let is = |state: &'static str| move |status: &Value| status["state"] == state;
    let mut system = System::new(GROUPS);
    system.start();
    system.kill("source:3");
    let status = system.wait_for("paused", is("Paused"));
    assert_eq!(status["survey"]["groups"][0]["present"], 2, "{status:#}");
    let problems = status["problems"].to_string();
    assert!(problems.contains("group trio"), "{problems}");
    let refusal = system.refuses(&["resume"]);
    assert!(refusal.contains("2 of at least 3 sources of group trio take part"), "{refusal}");
    assert!(system.does(&["pause"]).starts_with("Paused: "));
    system.launch("source:3", &["source:3"]);
    system.wait_for("back", |status| status["survey"]["groups"][0]["present"] == 3);
    sleep(Duration::from_millis(500));
    assert_eq!(system.status()["state"], "Paused");
    assert!(system.does(&["resume"]).starts_with("Running: "));
    // Sources are excluded and included by their group.
    let refusal = system.refuses(&["exclude", "group", "muons", "--why", "broken"]);
    assert!(refusal.contains("give one of the groups of the run: trio, calorimeter"), "{refusal}");
    let refusal = system.refuses(&["exclude", "group", "trio", "--why", "broken"]);
    assert!(refusal.contains("every other source is excluded, expendable or sporadic"), "{refusal}");
    system.does(&["exclude", "group", "calorimeter", "--why", "broken"]);
    system.wait_for("paused", is("Paused"));
    system.does(&["include", "group", "calorimeter"]);
    system.wait_for("running", is("Running"));
    let causes = system.status()["survey"]["dead_time_causes"].to_string();
    assert!(causes.contains("at_least trio: 2 of 3"), "{causes}");
}

/// Events wait for a frozen source, until an operator excludes it.
#[test]
fn excluding_a_frozen_source_lets_the_run_go_on() {
    let system = System::new("");
    system.start();
    system.wait_for("built events", |status| status["survey"]["events"]["complete"].as_u64() > Some(300));
    system.signal("source:3", "STOP");
    system.wait_for("full slots", |status| status["rates"]["events_per_s"].as_f64() == Some(0.0));
    let (before, asked) = (system.built(), Instant::now());
    system.does(&["exclude", "source", "calo", "--why", "no power"]);
    // Events that wait for the source close at once, and the triggers get slots again.
    system.wait_for("events without the source", |status| {
        status["survey"]["events"]["complete"].as_u64() > Some(before + 300)
    });
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let table = system.does(&["status"]);
    assert!(table.contains("source 3 (calo) is excluded (no power)"), "{table}");
    assert!(system.refuses(&["exclude", "source", "3", "--why", "x"]).contains("excluded already"));
    assert!(system.refuses(&["exclude", "source", "9", "--why", "x"]).contains("no source 9"));
    assert!(
        system.refuses(&["exclude", "source", "tpc", "--why", "x"]).contains("no source with the name `tpc`")
    );
    assert!(system.refuses(&["exclude", "source", "", "--why", "x"]).contains("no source with the name"));
    assert!(system.refuses(&["exclude", "source", "1"]).contains("does not say why source 1"));
    assert!(
        system
            .refuses(&["exclude", "source", "1", "--from", "1", "--why", "x"])
            .contains("past or under way")
    );
    system.does(&["exclude", "source", "2", "--why", "a test"]);
    assert!(
        system.refuses(&["exclude", "source", "1", "--why", "x"]).contains("every other source is excluded")
    );
    system.does(&["include", "source", "2"]);
    system.signal("source:3", "CONT");
    system.does(&["include", "source", "3"]);
    let since = system.built();
    system.wait_for("whole events", |status| {
        status["survey"]["events"]["complete"].as_u64() > Some(since + 500)
            && status["survey"]["sources"][2]["presence"] == "up"
    });
    let found = system.stop();
    let last = system.last_run();
    let complete = |absent: &[(u16, Cause)]| found.get(&(Vec::new(), absent.to_vec())).copied().unwrap_or(0);
    let without = complete(&[(3, Cause::Excluded)]) + complete(&[(2, Cause::Excluded), (3, Cause::Excluded)]);
    assert!(without > 300 && complete(&[]) > 600, "{found:?}");
    let incomplete: u64 = found.iter().filter(|((missing, _), _)| !missing.is_empty()).map(|(_, n)| n).sum();
    let released: u64 = found
        .iter()
        .filter(|((missing, _), _)| missing.contains(&(3, Cause::Released)))
        .map(|(_, events)| events)
        .sum();
    assert!(released > 0, "the events that waited are named: {found:?}");
    let verdict = last["verdict"].as_str().unwrap();
    assert!(verdict.contains(&format!("(of these, {without} without source 3 (excluded)")), "{verdict}");
    assert!(verdict.contains(&format!("{incomplete} incomplete")), "{verdict}: {found:?}");
    let changes = system.changes();
    let told: Vec<_> = changes.iter().map(|one| (one.source.number(), one.excluded, &*one.why)).collect();
    // Source 2 has one change less if no trigger came between the two.
    assert!([3, 4].contains(&told.len()), "{changes:?}");
    assert_eq!((told[0], told[told.len() - 2]), ((3, true, "no power"), (2, false, "")));
    assert_eq!(told[told.len() - 1], (3, false, ""));
    assert!(changes.is_sorted_by_key(|one| (one.utc, one.from)) && changes[0].utc.is_known(), "{changes:?}");
}

/// The processes of an expendable source come and go, and every event is complete.
#[test]
fn a_run_does_without_an_expendable_source() {
    let mut system = System::new("need = \"expendable\"");
    system.start();
    system.wait_for("built events", |status| status["survey"]["events"]["complete"].as_u64() > Some(300));
    system.processes.get_mut("source:3").unwrap().kill().unwrap();
    let before = system.built();
    system.wait_for("events without the source", |status| {
        status["survey"]["events"]["complete"].as_u64() > Some(before + 500)
    });
    system.launch("source:3", &["source:3"]);
    system.wait_for("the source again", |status| status["survey"]["sources"][2]["presence"] == "up");
    let since = system.built();
    system.wait_for("whole events", |status| {
        status["survey"]["events"]["complete"].as_u64() > Some(since + 300)
    });
    let found = system.stop();
    let (whole, without) = ((vec![], vec![]), (vec![], vec![(3, Cause::Expendable)]));
    assert_eq!(found.keys().collect::<Vec<_>>(), [&whole, &without], "{found:?}");
    let verdict = system.last_run()["verdict"].as_str().unwrap().to_owned();
    let text = format!("(of these, {} without source 3 (expendable))", found[&without]);
    assert!(verdict.contains(&text), "{verdict}: {found:?}");
    assert_eq!(system.last_run()["exit_code"], 0, "{:#}", system.last_run());
}
