//! The programs of `[hooks]` at the real `evbd`: what they are told, and what becomes of a run
//! whose programs fail, hang, are missing or refuse it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use evb_core::fragment::Checksum;
use evb_file::{EventFile, files_at};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

use crate::{hooks::script, signals, system};

/// An evbd with all roles, and the directory of its files.
pub(crate) struct System {
    pub(crate) dir: tempfile::TempDir,
}

impl System {
    /// Writes a configuration with these keys of `[hooks]`, and with further sections.
    pub(crate) fn new(hooks: &str, sections: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = Self { dir };
        let (out, ports) = (system.path("out"), evb_needs::free_ports(2));
        let (supervisor, builder) = (ports[0], ports[1]);
        let text = format!(
            "{sections}\n[supervisor]\nlisten = \"127.0.0.1:{supervisor}\"\ntrigger = {{ kind = \"periodic\", rate = \"400 Hz\" }}\n\
             [hooks]\n{}\n\
             [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
             [[builder]]\nid = 1\nname = \"near\"\nlisten = \"127.0.0.1:{builder}\"\nsink = {{ kind = \"file\", path = \"{}\", rotate = \"64 kB\" }}\n",
            hooks.replace("DIR", &system.dir.path().display().to_string()),
            out.display(),
        );
        fs::write(system.path("evb.toml"), text).unwrap();
        system
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        script(self.dir.path(), name, text);
    }

    fn start(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
        command.args(["run", "--quiet", "--summary"]).arg(self.path("summary.json"));
        command.arg(self.path("evb.toml")).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Starts evbd with its log in a file.
    pub(crate) fn start_quietly(&self) -> Evbd {
        let log = fs::File::create(self.path("log")).unwrap();
        let mut command = signals::evbd();
        Evbd(command.args(["run", "--quiet"]).arg(self.path("evb.toml")).stderr(log).spawn().unwrap())
    }

    /// Starts an evbd with these roles, by default all; its files may grow to that number of blocks
    /// of 512 bytes.
    pub(crate) fn start_with_small_files(&self, blocks: u32, roles: &[&str]) -> Evbd {
        let log = fs::File::create(self.path("log")).unwrap();
        let mut command = signals::evbd_with_small_files(Some(blocks));
        command.args(["run", "--quiet"]).args(roles.iter().flat_map(|role| ["--role", role]));
        Evbd(command.arg(self.path("evb.toml")).stderr(log).spawn().unwrap())
    }

    /// Starts an evbd with some of the roles.
    pub(crate) fn start_roles(&self, roles: &[&str]) -> Evbd {
        let mut command = signals::evbd();
        command.args(["run", "--quiet"]).args(roles.iter().flat_map(|role| ["--role", role]));
        Evbd(command.arg(self.path("evb.toml")).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Runs evbd to its end; returns what it has said, and the summary of its run.
    pub(crate) fn run(&self) -> (Output, Value) {
        let output = self.start().wait_with_output().unwrap();
        let summary = fs::read(self.path("summary.json")).unwrap_or_default();
        (output, serde_json::from_slice(&summary).unwrap_or_default())
    }

    /// Returns what programs were told, one object for each call.
    fn told(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A process that ends with the test.
pub(crate) struct Evbd(Child);

impl Evbd {
    /// Waits until the process ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the process ends by itself; returns its exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.wait().code()
    }

    /// Sends a signal, given by its name.
    pub(crate) fn signal(&self, signal: &str) {
        signals::send(signal, [&self.0]);
    }

    /// Lets files of the process grow to any size.
    pub(crate) fn make_room(&self) {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: maximum, maximum };
        prlimit(Some(Pid::from_child(&self.0)), Resource::Fsize, limit).unwrap();
    }
}

impl Drop for Evbd {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const TELL: &str = "cat >> $EVB_HOOK; echo >> $EVB_HOOK";

#[test]
fn programs_are_told_of_start_end_and_each_file_with_its_checksum() {
    let system = System::new(
        "run_starts = [\"DIR/tell\"]\nrun_ends = [\"DIR/tell\"]\nfile_closed = [\"DIR/tell\"]",
        "[run]\nevents = 400",
    );
    system.program("tell", TELL);
    let (output, summary) = system.run();
    assert!(output.status.success(), "{}", log(&output));
    let [start, end] = ["run_starts", "run_ends"].map(|hook| system.told(hook));
    assert_eq!((start.len(), end.len()), (1, 1), "{}", log(&output));
    let (start, end) = (&start[0], &end[0]);
    assert_eq!(start["run_id"], summary["run_id"]);
    for key in ["run", "run_id", "exit_code", "verdict", "events", "begin", "end", "annotation"] {
        assert_eq!(end[key], summary[key], "{key}");
    }
    let files = files_at(&system.path("out")).unwrap();
    let told = system.told("file_closed");
    assert!(files.len() > 3 && told.len() == files.len(), "{} of {}", told.len(), files.len());
    for (path, told) in files.iter().zip(told) {
        let content = fs::read(path).unwrap();
        let ids: Vec<u64> =
            EventFile::open(path).unwrap().events().map(|event| event.unwrap().id.number()).collect();
        let expected = json!({
            "hook": "file_closed", "run": 1, "run_id": summary["run_id"], "builder": 1, "name": "near",
            "path": path, "size": content.len(), "events": ids.len(),
            "first": ids.iter().min(), "last": ids.iter().max(),
            "crc64_nvme": format!("{:016x}", Checksum::of(&content).number()),
        });
        assert_eq!(told, expected);
    }
}

#[test]
fn the_example_copies_each_file_whole() {
    let Some(()) = evb_needs::granted(evb_needs::programs(&["python3", "sha256sum"])) else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hooks/upload.sh");
    let hook = format!("file_closed = [\"{}\", \"DIR\"]", example.canonicalize().unwrap().display());
    let system = System::new(&hook, "[run]\nevents = 400");
    let (output, _) = system.run();
    assert!(output.status.success(), "{}", log(&output));
    let files = files_at(&system.path("out")).unwrap();
    assert!(files.len() > 3);
    for file in files {
        let copy = system.path(file.file_name().unwrap().to_str().unwrap());
        assert!(fs::read(&copy).unwrap() == fs::read(&file).unwrap(), "{}", copy.display());
        assert!(copy.with_extension("evb.sha256").exists());
    }
}

#[test]
fn only_code_3_of_run_starts_stops_a_run() {
    for (program, remark) in [
        ("exit 2", "exited with code 2"),
        ("sleep 600 & sleep 600", "did not end within 1.00 s, and was killed"),
        ("kill -9 $$", "was killed by signal 9"),
        ("", "cannot be started"),
    ] {
        let system = System::new("run_starts = [\"DIR/may\"]\ntimeout = \"1 s\"", "[run]\nevents = 5");
        if !program.is_empty() {
            system.program("may", program);
        }
        let (output, summary) = system.run();
        assert!(output.status.success(), "{}", log(&output));
        let remarks = summary["remarks"].as_array().unwrap();
        let said = |found: &Value| found.as_str().unwrap().starts_with("the program of the hook run_starts");
        let found = remarks.iter().find(|found| said(found)).unwrap_or_else(|| panic!("{remarks:?}"));
        assert!(found.as_str().unwrap().contains(remark), "{found}");
    }
    let system = System::new("run_starts = [\"DIR/may\"]", "[run]\nevents = 5");
    system.program("may", "echo the magnet is off >&2; exit 3");
    let (output, summary) = system.run();
    assert!(!output.status.success());
    let failure = summary["failure"].as_str().unwrap();
    assert!(failure.contains("its last line on stderr is `the magnet is off`"), "{failure}");
    assert_eq!(files_at(&system.path("out")).map_or(0, |files| files.len()), 0, "no run, no file");
}

#[test]
fn an_operator_reads_the_veto_and_the_state_of_hooks() {
    let port = evb_needs::free_ports(1)[0];
    let system = System::new(
        "run_starts = [\"DIR/may\"]\nrun_ends = [\"DIR/tell\"]\nproblem = [\"DIR/tell\"]",
        &format!("[control]\nlisten = \"127.0.0.1:{port}\""),
    );
    system.program("may", "test -e beam || { echo no beam >&2; exit 3; }");
    system.program("tell", TELL);
    let mut evbd = system.start_quietly();
    let dir = system.dir.path();
    let wait = |what: &str, is: &dyn Fn(&Value) -> bool| system::wait_for(dir, what, |status| is(status));
    wait("ready", &|status| status["ready"] == true);
    let refused = system::ctl(dir, &["start"]);
    let text = log(&refused);
    assert!(
        !refused.status.success() && text.contains("/may has refused the run") && text.contains("no beam"),
        "{text}"
    );
    fs::write(system.path("beam"), "").unwrap();
    let begun = system::ctl(dir, &["start", "--comment", "<b>"]);
    assert!(begun.status.success(), "{}", log(&begun));
    wait("events", &|status| status["survey"]["events"]["complete"].as_u64() > Some(50));
    assert!(system::ctl(dir, &["stop"]).status.success());
    let count = |status: &Value, hook: usize, key: &str| status["hooks"][hook][key].as_u64();
    let status = wait("told", &|status| count(status, 1, "succeeded") == Some(1));
    assert_eq!(
        (&status["hooks"][0]["hook"], count(&status, 0, "succeeded")),
        (&json!("run_starts"), Some(2))
    );
    assert_eq!(count(&status, 2, "pending"), Some(0));
    // The record has the veto before the run, too.
    let record = crate::run_records::record(&system);
    let calls = record["hooks"]["calls"].as_array().unwrap();
    let of = |call: &Value| format!("{} {}", call["hook"], call["outcome"]).replace('"', "");
    assert_eq!(
        calls.iter().map(of).collect::<Vec<_>>(),
        ["run_starts vetoed", "run_starts succeeded", "run_ends succeeded"]
    );
    assert!(calls[0]["text"].as_str().unwrap().contains("no beam"), "{record:#}");
    assert!(calls.iter().all(|call| call["at"].is_string() && call["program"].is_string()), "{record:#}");
    assert_eq!(crate::run_records::disagreements(&record), [""; 0]);
    let end = &system.told("run_ends")[0];
    assert_eq!((&end["annotation"]["comment"], &end["run"]), (&json!("<b>"), &json!(1)));
    signals::send("TERM", [&evbd.0]);
    assert!(evbd.0.wait().unwrap().success());
}

/// A program that hangs takes its time limit at the end of the process, and no more.
#[test]
fn a_program_that_hangs_changes_neither_exit_code_nor_events() {
    let system = System::new(
        "run_ends = [\"DIR/hang\"]\nfile_closed = [\"DIR/hang\"]\ntimeout = \"1 s\"",
        "[run]\nevents = 400",
    );
    system.program("hang", "echo $$ >> ids; yes | head -c 2000000; (trap '' TERM; sleep 600) & sleep 600");
    let (output, summary) = system.run();
    assert!(output.status.success(), "{}", log(&output));
    assert_eq!(summary["events"]["complete"], 400);
    let text = log(&output);
    assert!(text.contains("hook run_ends for run 1 has failed: the program "), "{text}");
    assert!(text.contains("did not end within 1.00 s"), "{text}");
    let ids = fs::read_to_string(system.path("ids")).unwrap();
    assert!(ids.lines().count() >= 3, "{ids}");
    assert!(ids.lines().all(|id| !Path::new("/proc").join(id).exists()), "{ids}");
}
