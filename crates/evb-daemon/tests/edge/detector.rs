//! Detectors of any number of sources, in processes of their own: the test announces the triggers,
//! and a board answers them at each source.

mod readouts;

use std::{
    collections::BTreeMap,
    fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use evb_core::{trigger::announcement::Announcement, units::Bytes};
use serde_json::Value;

pub(crate) use self::readouts::Readout;
use self::readouts::Readouts;
use crate::{signals, system};

/// Time between two looks of a board for a trigger or for its source.
const LOOK: Duration = Duration::from_millis(10);
/// The largest payload of a fragment.
const MAX_FRAGMENT: Bytes = Bytes::kib(4);

/// The time of a trigger after the start of the run.
pub(crate) type Due = Arc<dyn Fn(u64) -> Duration + Send + Sync>;
/// Bytes that the board of a source sends for an event; `None`: nothing.
pub(crate) type Sent = Arc<dyn Fn(u16, u64) -> Option<Vec<u8>> + Send + Sync>;

/// The parts of a detector.
pub(crate) struct Layout {
    /// Numbers of sources, of those in one process, and of builders.
    pub(crate) sources: u16,
    pub(crate) together: u16,
    pub(crate) builders: u16,
    /// Number of slots of a builder.
    pub(crate) slots: u16,
    /// Readouts of the first sources; the others have front ends at Unix sockets.
    pub(crate) readouts: Vec<Readout>,
    /// Further keys of the run and the supervisor, and of some sources by their ids. A source of
    /// the library declares its own.
    pub(crate) run: String,
    pub(crate) supervisor: &'static str,
    pub(crate) keys: Vec<(u16, String)>,
    /// Further sections.
    pub(crate) sections: String,
    pub(crate) due: Due,
    pub(crate) sent: Sent,
}

impl Layout {
    /// Returns the configuration; for tools that read files, with the keys of all sources.
    fn config(&self, folder: &Path, ports: &Ports, is_for_tools: bool) -> String {
        let folder = folder.display();
        let mut text = format!(
            "[run]\nnumber = 1\n{}\n\
             [supervisor]\nlisten = \"127.0.0.1:{}\"\njournal = \"{folder}/journal\"\nslots = {}\n\
             trigger = {{ kind = \"external\", listen = \"127.0.0.1:{}\", protocol = \"udp\" }}\n{}\n\
             [control]\nlisten = \"127.0.0.1:{}\"\n{}\n",
            self.run,
            ports.supervisor,
            self.slots,
            ports.trigger,
            self.supervisor,
            ports.control,
            self.sections
        );
        for id in 1..=self.sources {
            let is_told = is_for_tools || !self.readout(id).is_library();
            let keys = self.keys.iter().find(|(of, _)| *of == id && is_told).map_or("", |(_, keys)| keys);
            let input = match self.readout(id) {
                Readout::Unix => format!("{{ kind = \"unix\", path = \"{folder}/{id}.sock\" }}"),
                _ => format!(
                    "{{ kind = \"tcp\", listen = \"127.0.0.1:{}\" }}",
                    ports.front_ends[usize::from(id) - 1]
                ),
            };
            text += &format!("[[source]]\nid = {id}\nname = \"crate {id}\"\ninput = {input}\n");
            text += &format!("max_fragment = \"{MAX_FRAGMENT}\"\n{keys}\n");
        }
        for (id, port) in (1..).zip(&ports.builders) {
            let sink = format!("{{ kind = \"file\", path = \"{folder}/out\" }}");
            text += &format!("[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\nsink = {sink}\n");
        }
        text
    }

    fn readout(&self, source: u16) -> &Readout {
        self.readouts.get(usize::from(source) - 1).unwrap_or(&Readout::Unix)
    }

    /// Returns the name of the process that hosts a source.
    pub(crate) fn host(&self, source: u16) -> String {
        format!("sources {}", (source - 1) / self.together)
    }

    fn roles(&self, process: &str) -> Vec<String> {
        if !process.starts_with("sources") {
            return vec![process.to_owned()];
        }
        let is_own = |source: &u16| self.host(*source) == process && !self.readout(*source).is_library();
        let own = (1..=self.sources).filter(is_own);
        own.map(|source| format!("source:{source}")).collect()
    }
}

/// Ports of the parts of a detector.
struct Ports {
    trigger: u16,
    control: u16,
    supervisor: u16,
    builders: Vec<u16>,
    /// Ports of the front ends at the first sources.
    front_ends: Vec<u16>,
}

impl Ports {
    fn of(layout: &Layout) -> Self {
        let mut free = evb_needs::free_ports(3 + usize::from(layout.builders) + layout.readouts.len());
        let front_ends = free.split_off(3 + usize::from(layout.builders));
        let builders = free.split_off(3);
        Self { trigger: free[0], control: free[1], supervisor: free[2], builders, front_ends }
    }
}

/// Facts that the threads of a detector share.
struct Shared {
    dir: tempfile::TempDir,
    /// Number of triggers so far.
    triggers: AtomicU64,
    /// True for each board that does not answer.
    frozen: Vec<AtomicBool>,
    is_over: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Sends the fragments of a source, each once, on connections that are opened again when the
    /// source closes them.
    fn be_board(&self, source: u16, sent: &Sent, readouts: &Readouts) {
        let (mut way, mut next) = (None, 1);
        while !self.is_over() {
            let is_frozen = self.frozen[usize::from(source) - 1].load(Ordering::Relaxed);
            if is_frozen || next > self.triggers.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                continue;
            }
            let Some(bytes) = sent(source, next) else {
                next += 1;
                continue;
            };
            way = way.or_else(|| readouts.connect(source));
            if way.as_mut().is_some_and(|open| open.try_send(&bytes)) {
                next += 1;
            } else {
                way = None;
                thread::sleep(LOOK);
            }
        }
    }

    fn announce(&self, port: u16, due: &Due) {
        let (socket, begun) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Instant::now());
        while !self.is_over() {
            let number = 1 + self.triggers.load(Ordering::Relaxed);
            let wait = due(number).saturating_sub(begun.elapsed());
            thread::sleep(wait.min(LOOK));
            if wait > LOOK {
                continue;
            }
            self.triggers.store(number, Ordering::Relaxed);
            // While the supervisor is dead, the datagram is lost.
            let _ = socket.send_to(&Announcement { number, sent_ns: 0 }.encode(), ("127.0.0.1", port));
        }
    }
}

/// A detector under run control.
pub(crate) struct Detector {
    pub(crate) layout: Layout,
    ports: Ports,
    shared: Arc<Shared>,
    /// Sources whose front ends connect before the run.
    connected: Vec<u16>,
    processes: BTreeMap<String, Child>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Detector {
    /// Starts all processes, and the boards.
    pub(crate) fn start(layout: Layout) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = Ports::of(&layout);
        for (file, is_for_tools) in [("evb.toml", false), ("tools.toml", true)] {
            fs::write(dir.path().join(file), layout.config(dir.path(), &ports, is_for_tools)).unwrap();
        }
        let shared = Arc::new(Shared {
            dir,
            triggers: AtomicU64::new(0),
            frozen: (0..layout.sources).map(|_| AtomicBool::new(false)).collect(),
            is_over: AtomicBool::new(false),
        });
        let (processes, threads) = (BTreeMap::new(), Vec::new());
        let mut system = Self { layout, ports, shared, connected: Vec::new(), processes, threads };
        let own = (1..=system.layout.sources).filter(|id| !system.layout.readout(*id).is_library());
        let hosts = own.map(|source| system.layout.host(source));
        let builders = (1..=system.layout.builders).map(|id| format!("builder:{id}"));
        let all = ["supervisor".to_owned()].into_iter().chain(builders).chain(hosts);
        for process in all.collect::<Vec<_>>() {
            system.launch(&process);
        }
        let readouts = Arc::new(Readouts::start(&system.layout, system.shared.dir.path(), &system.ports));
        system.connected = readouts.connected();
        for source in 1..=system.layout.sources {
            let (shared, sent) = (system.shared.clone(), system.layout.sent.clone());
            let readouts = readouts.clone();
            system.threads.push(thread::spawn(move || shared.be_board(source, &sent, &readouts)));
        }
        system
    }

    /// Starts the run, and then the triggers.
    pub(crate) fn begin(&mut self) {
        self.wait_for("ready", |status| {
            let is_connected = |source: &u16| {
                let of_source = &status["survey"]["sources"][usize::from(*source) - 1];
                of_source["front_ends"]["connected"].as_u64() > Some(0)
            };
            status["ready"] == true && self.connected.iter().all(is_connected)
        });
        assert!(self.does(&["start"]), "{}", self.log());
        let (shared, port, due) = (self.shared.clone(), self.ports.trigger, self.layout.due.clone());
        self.threads.push(thread::spawn(move || shared.announce(port, &due)));
    }

    /// Starts a process, unless it runs.
    pub(crate) fn launch(&mut self, process: &str) {
        if self.processes.contains_key(process) {
            return;
        }
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = signals::evbd();
        command.arg("run").arg(self.path("evb.toml")).arg("--quiet").stdout(Stdio::null()).stderr(log);
        if process == "supervisor" {
            command.arg("--summary").arg(self.path("summary.json"));
        }
        command.args(self.layout.roles(process).iter().flat_map(|role| ["--role", role]));
        self.processes.insert(process.to_owned(), command.spawn().unwrap());
    }

    /// Kills a process, if it runs.
    pub(crate) fn kill(&mut self, process: &str) {
        if let Some(mut child) = self.processes.remove(process) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Lets a board answer triggers, or not. A board that goes on sends what it has not sent.
    pub(crate) fn freeze(&self, source: u16, is_frozen: bool) {
        self.shared.frozen[usize::from(source) - 1].store(is_frozen, Ordering::Relaxed);
    }

    /// Returns the number of triggers so far.
    pub(crate) fn triggers(&self) -> u64 {
        self.shared.triggers.load(Ordering::Relaxed)
    }

    /// Returns the address of run control.
    pub(crate) fn control(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.ports.control)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.shared.dir.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        system::log(self.shared.dir.path())
    }

    /// Gives a command; returns true if the supervisor accepted it.
    pub(crate) fn does(&self, words: &[&str]) -> bool {
        system::ctl(self.shared.dir.path(), words).status.success()
    }

    /// Returns the document that Chromium makes of the page.
    pub(crate) fn page(&self) -> String {
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new("chromium");
        browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        browser.arg(format!("--user-data-dir={}", profile.path().display()));
        browser.args(["--dump-dom", "--virtual-time-budget=3000"]);
        browser.arg(format!("http://127.0.0.1:{}/", self.ports.control));
        browser.env("HOME", profile.path()).stderr(Stdio::null());
        String::from_utf8(browser.output().unwrap().stdout).unwrap()
    }

    /// Waits for a status.
    pub(crate) fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        system::wait_for(self.shared.dir.path(), what, is)
    }

    /// Ends the run, and returns its summary.
    pub(crate) fn end(&self) -> Value {
        assert!(self.does(&["stop"]), "{}", self.log());
        self.summary()
    }

    /// Waits for the end of the run, and returns its summary.
    pub(crate) fn summary(&self) -> Value {
        self.wait_for("over", |status| status["runs"] == 1);
        serde_json::from_slice(&fs::read(self.path("summary.json")).unwrap()).unwrap()
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // A board may wait for its source to read.
        for child in self.processes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
