//! The system of the tests, and the front ends at its sources.

use std::{
    fs, io,
    net::{TcpStream, UdpSocket},
    ops::RangeInclusive,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use evb_core::{event::Event, trigger::announcement::Announcement};
use evb_file::{EventFile, files_at};
use serde_json::Value;

use crate::{
    front_end::{FrontEnd, Stream},
    signals,
};

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

/// Number of events of each run.
pub(crate) const EVENTS: u64 = 60;

/// An evbd under run control with a source for TCP (1) and one for a Unix socket (2), and a
/// builder.
pub(crate) struct System {
    dir: tempfile::TempDir,
    port: u16,
    supervisor_port: u16,
    trigger_port: u16,
    evbd: Child,
    other: Option<Child>,
}

impl System {
    /// Starts a system; `keys` are further keys of both inputs.
    pub(crate) fn start(keys: &str) -> Self {
        Self::launch(&at_500_hz("20 s"), keys)
    }

    /// Starts a system that closes events after that time without missing fragments.
    pub(crate) fn start_with_deadline(deadline: &str) -> Self {
        Self::launch(&at_500_hz(deadline), "")
    }

    /// Starts a system whose triggers come every 10 ms; `keys` are further keys of the supervisor.
    pub(crate) fn at_100_hz(keys: &str) -> Self {
        let trigger = r#"{ kind = "periodic", rate = "100 Hz" }"#;
        Self::launch(&format!("[supervisor]\ntrigger = {trigger}\ndeadline = \"1 s\"\n{keys}\n"), "")
    }

    /// Starts a system with a trigger every five seconds.
    pub(crate) fn at_a_low_rate() -> Self {
        let trigger = r#"{ kind = "periodic", rate = "0.2 Hz" }"#;
        Self::launch(&format!("[supervisor]\ntrigger = {trigger}\ndeadline = \"1 s\"\n"), "")
    }

    /// Starts a system that builds that number of events as fast as it can.
    pub(crate) fn at_full_speed(events: u64) -> Self {
        let head = format!("[run]\nevents = {events}\n[supervisor]\ntrigger = \"as-fast-as-possible\"\n");
        Self::launch(&head, "")
    }

    /// Starts a system with triggers every 10 ms in two processes: one with the supervisor and the
    /// builder, and one with both sources.
    pub(crate) fn of_two_hosts() -> Self {
        let mut system = Self::without_sources();
        system.start_other();
        system
    }

    /// Starts a system with triggers every 10 ms whose sources run elsewhere.
    pub(crate) fn without_sources() -> Self {
        let trigger = r#"{ kind = "periodic", rate = "100 Hz" }"#;
        let head = format!("[supervisor]\ntrigger = {trigger}\ndeadline = \"1 s\"\n");
        Self::launch_with(&head, "", "", &["supervisor", "builder:1"])
    }

    /// Starts the process with both sources.
    pub(crate) fn start_other(&mut self) {
        let log = fs::File::options().append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = evbd(self.dir.path(), &["source:1", "source:2"]);
        self.other = Some(command.stderr(log).spawn().unwrap());
    }

    /// Sends a signal to the process with both sources.
    pub(crate) fn signal_other(&self, signal: &str) {
        signals::send(signal, [self.other.as_ref().unwrap()]);
    }

    /// Starts a system whose triggers are announced by datagrams.
    pub(crate) fn triggered(deadline: &str) -> Self {
        Self::triggered_with(deadline, "")
    }

    /// Starts such a system whose front ends send trigger counters.
    pub(crate) fn triggered_with_counters(deadline: &str, counter: &str) -> Self {
        Self::triggered_with(deadline, &format!(" }}\ncounter = {}", counter.trim_end_matches(" }")))
    }

    fn triggered_with(deadline: &str, keys: &str) -> Self {
        let port = evb_needs::free_ports(1)[0];
        let trigger = format!(r#"{{ kind = "external", listen = "127.0.0.1:{port}", protocol = "udp" }}"#);
        let head = format!("[supervisor]\ntrigger = {trigger}\ndeadline = \"{deadline}\"\nslots = 256\n");
        let mut system = Self::launch(&head, keys);
        system.trigger_port = port;
        system
    }

    /// Announces triggers to a system that is [`triggered`](Self::triggered).
    pub(crate) fn announce(&self, numbers: RangeInclusive<u64>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", self.trigger_port)).unwrap();
        for number in numbers {
            socket.send(&Announcement { number, sent_ns: 0 }.encode()).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts a system with further keys of run control.
    pub(crate) fn with_control(keys: &str) -> Self {
        let trigger = r#"trigger = { kind = "periodic", rate = "100 Hz" }"#;
        let run = format!("[run]\nevents = {EVENTS}\n[supervisor]\n{trigger}\n");
        Self::launch_with(&run, keys, "", &[])
    }

    /// Starts a system; `head` ends with the section of the supervisor.
    fn launch(head: &str, keys: &str) -> Self {
        Self::launch_with(head, "", keys, &[])
    }

    /// Starts a system; `roles` are those of its process, by default all.
    fn launch_with(head: &str, control: &str, keys: &str, roles: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(4);
        let folder = dir.path().display();
        let text = format!(
            r#"{head}listen = "127.0.0.1:{}"
[control]
listen = "127.0.0.1:{}"
{control}
[[source]]
id = 1
input = {{ kind = "tcp", listen = "127.0.0.1:{}"{keys} }}
[[source]]
id = 2
input = {{ kind = "unix", path = "{folder}/two.sock"{keys} }}
[[builder]]
id = 1
listen = "127.0.0.1:{}"
sink = {{ kind = "file", path = "{folder}/out" }}
"#,
            ports[0], ports[1], ports[2], ports[3],
        );
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        let log = fs::File::options().create(true).append(true).open(dir.path().join("log")).unwrap();
        let evbd = evbd(dir.path(), roles).stderr(log).spawn().unwrap();
        Self { port: ports[2], supervisor_port: ports[0], trigger_port: 0, evbd, other: None, dir }
    }

    /// Returns the address of the supervisor.
    pub(crate) fn supervisor(&self) -> String {
        format!("127.0.0.1:{}", self.supervisor_port)
    }

    pub(crate) fn log(&self) -> String {
        log(self.dir.path())
    }

    pub(crate) fn ctl(&self, words: &[&str]) -> Output {
        ctl(self.dir.path(), words)
    }

    pub(crate) fn status(&self) -> Value {
        status(self.dir.path())
    }

    /// Waits for a status.
    pub(crate) fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_for(self.dir.path(), what, is)
    }

    /// Waits until all roles of the next run have registered.
    pub(crate) fn wait_until_ready(&self, over: u64) {
        self.wait_for("ready", |status| {
            status["runs"] == over && status["state"] == "Configured" && status["ready"] == true
        });
    }

    /// Waits until each source has a front end.
    pub(crate) fn wait_for_front_ends(&self) {
        self.wait_for("connected", |status| {
            let sources = status["survey"]["sources"].as_array();
            let has =
                |source: &Value| source["front_ends"]["connected"].as_u64().is_some_and(|count| count > 0);
            sources.is_some_and(|all| all.iter().all(has))
        });
    }

    /// Starts a run.
    pub(crate) fn begin(&self) {
        let output = self.ctl(&["start"]);
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.log());
    }

    /// Stops evbd for the moment.
    pub(crate) fn freeze(&self) {
        signals::send("STOP", [&self.evbd]);
    }

    /// Starts a run with evbd frozen, so that the command waits beside all that front ends sent.
    pub(crate) fn begin_from_frozen(&self) {
        thread::scope(|scope| {
            let begun = scope.spawn(|| self.begin());
            thread::sleep(Duration::from_millis(100));
            signals::send("CONT", [&self.evbd]);
            begun.join().unwrap();
        });
    }

    /// Waits for the end of a run; returns its summary.
    pub(crate) fn end(&self, run: u64) -> Value {
        self.wait_for("over", |status| status["runs"] == run);
        let path = self.dir.path().join(format!("summary-{run}.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// Returns the events of a run.
    pub(crate) fn events(&self, run: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for path in files_at(&self.dir.path().join("out")).unwrap_or_default() {
            let file = EventFile::open(path).unwrap();
            if u64::from(file.header().run.number()) == run {
                events.extend(file.events().map(Result::unwrap));
            }
        }
        events
    }

    /// Connects to a source as its front end; waits until the source listens.
    pub(crate) fn connect(&self, source: u16) -> FrontEnd {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match self.try_connect(source) {
                Ok(stream) => return FrontEnd::new(stream, source),
                Err(error) => assert!(Instant::now() < until, "{error}\n{}", self.log()),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn try_connect(&self, source: u16) -> io::Result<Stream> {
        Ok(match source {
            1 => Stream::Tcp(TcpStream::connect(("127.0.0.1", self.port))?),
            _ => Stream::Unix(UnixStream::connect(self.socket())?),
        })
    }

    /// Returns the address at which a source listens, as configuration and examples write it.
    pub(crate) fn address(&self, source: u16) -> String {
        match source {
            1 => format!("127.0.0.1:{}", self.port),
            _ => self.socket().display().to_string(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("two.sock")
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        for child in self.other.iter_mut().chain([&mut self.evbd]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns what the processes of a folder have logged.
pub(crate) fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("log")).unwrap()
}

/// Gives a command to the supervisor of a folder's configuration.
pub(crate) fn ctl(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(EVBD);
    command.arg("ctl").arg("--config").arg(dir.join("evb.toml")).args(words).output().unwrap()
}

/// Returns the status; null while no supervisor answers.
pub(crate) fn status(dir: &Path) -> Value {
    serde_json::from_slice(&ctl(dir, &["status", "--json"]).stdout).unwrap_or_default()
}

/// Waits for a status.
pub(crate) fn wait_for(dir: &Path, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let status = status(dir);
        if is(&status) {
            return status;
        }
        assert!(Instant::now() < until, "never {what}: {status:#}\n{}", log(dir));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the command of a process that hosts these roles, by default all.
fn evbd(dir: &Path, roles: &[&str]) -> Command {
    let mut command = Command::new(EVBD);
    command.arg("run").arg(dir.join("evb.toml")).arg("--quiet").stdout(Stdio::null());
    command.env("EVBD_LOG", "info");
    if roles.is_empty() || roles.contains(&"supervisor") {
        command.arg("--summary").arg(dir.join("summary-{run}.json"));
    }
    command.args(roles.iter().flat_map(|role| ["--role", role]));
    command
}

/// Returns the head of a configuration for runs of [`EVENTS`] events.
fn at_500_hz(deadline: &str) -> String {
    format!(
        r#"
[run]
events = {EVENTS}
[supervisor]
trigger = {{ kind = "periodic", rate = "500 Hz" }}
deadline = "{deadline}"
slots = 256
orphan_timeout = "20 s"
"#
    )
}

/// Returns a fragment as a front end sends it; its payload says source, run and event.
pub(crate) fn fragment(source: u16, run: u64, event: u64) -> Vec<u8> {
    let mut payload = [u64::from(source).to_le_bytes(), run.to_le_bytes(), event.to_le_bytes()].concat();
    payload.resize(24 + (event * 37 % 3000) as usize, run as u8);
    let length = payload.len() as u32;
    [&length.to_le_bytes()[..], &event.to_le_bytes(), &(run * 1_000_000 + event).to_le_bytes(), &payload]
        .concat()
}

/// Returns the number of fragments in the events that are of another run.
pub(crate) fn foreign(events: &[Event], run: u64) -> usize {
    let number = |payload: &[u8], at: usize| u64::from_le_bytes(payload[at * 8..][..8].try_into().unwrap());
    let all = events.iter().flat_map(|event| event.fragments().map(move |fragment| (event.id, fragment)));
    all.filter(|(event, fragment)| {
        assert_eq!(number(fragment.payload, 0), u64::from(fragment.source.number()));
        assert_eq!(number(fragment.payload, 2), event.number());
        number(fragment.payload, 1) != run
    })
    .count()
}
