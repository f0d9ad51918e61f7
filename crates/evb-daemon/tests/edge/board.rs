//! An emulator of a board like a SiTCP board: a TCP server that sends frames to one client.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

use crate::{signals, system};

/// Length of a frame's header: magic, length of the payload, counter, clock.
pub(crate) const HEADER: usize = 12;

/// A board that listens, and its connection.
pub(crate) struct Board {
    source: u16,
    port: u16,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
    /// First value of the trigger counter, for the configuration.
    pub(crate) first: &'static str,
    /// Further keys of the source's input.
    pub(crate) keys: String,
    /// Number of triggers before event 1 since the counter was reset.
    pub(crate) ahead: u64,
}

impl Board {
    pub(crate) fn new(source: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (listener, keys) = (Some(listener), String::new());
        Self { source, port, listener, stream: None, first: "0", keys, ahead: 0 }
    }

    /// Waits for the source's connection.
    pub(crate) fn accept(&mut self) {
        let (stream, _) = self.listener.as_ref().unwrap().accept().unwrap();
        stream.set_nodelay(true).unwrap();
        self.stream = Some(stream);
    }

    /// Closes the connection.
    pub(crate) fn die(&mut self) {
        self.stream = None;
    }

    /// Closes the connection and refuses others.
    pub(crate) fn switch_off(&mut self) {
        (self.listener, self.stream) = (None, None);
    }

    pub(crate) fn switch_on(&mut self) {
        self.listener = Some(TcpListener::bind(("127.0.0.1", self.port)).unwrap());
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Reads what evb sends, which must be these bytes.
    pub(crate) fn hear(&mut self, expected: &[u8]) {
        let stream = self.stream.as_mut().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = vec![0; expected.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected);
    }

    /// Sends the frames of some events.
    pub(crate) fn send_events(&mut self, events: impl IntoIterator<Item = u64>) {
        let bytes: Vec<u8> = events.into_iter().flat_map(|event| self.frame(event)).collect();
        self.send(&bytes);
    }

    /// Returns the frame of an event, which happens one millisecond after the last one.
    pub(crate) fn frame(&self, event: u64) -> Vec<u8> {
        let payload = payload(self.source, event);
        let clock = event * 125_000 + u64::from(self.source) * 77;
        [
            &[0xeb, 0x90][..],
            &(payload.len() as u16).to_be_bytes(),
            &((event - 1 + self.ahead) as u16).to_be_bytes(),
            &clock.to_be_bytes()[2..],
            &payload,
        ]
        .concat()
    }
}

/// Returns the payload of an event's frame, which says source, run and event.
pub(crate) fn payload(source: u16, event: u64) -> Vec<u8> {
    system::fragment(source, 1, event).split_off(20)
}

/// An evbd under run control whose sources connect to boards, with triggers that the test
/// announces.
pub(crate) struct Crate {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) trigger: u16,
    evbd: Child,
}

impl Crate {
    pub(crate) fn start(boards: &[Board]) -> Self {
        let section = |board: &Board| {
            let usual = format!("counter = {{ bits = 16, first = {} }}", board.first);
            let input = format!("input = {{ {}", board.keys);
            source(board.source, board.port)
                .replace("counter = { bits = 16, first = 0 }", &usual)
                .replace("input = { ", &input)
        };
        Self::start_with(&boards.iter().map(section).collect::<String>())
    }

    /// Starts an evbd with these sections of sources.
    pub(crate) fn start_with(sources: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(4);
        let folder = dir.path().display();
        let mut text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:{}\"\ndeadline = \"1 s\"\nslots = 512\n\
             trigger = {{ kind = \"external\", listen = \"127.0.0.1:{}\", protocol = \"udp\" }}\n\
             [control]\nlisten = \"127.0.0.1:{}\"\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"{folder}/out\" }}\n",
            ports[0], ports[1], ports[2], ports[3]
        );
        text += sources;
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        let log = fs::File::options().create(true).append(true).open(dir.path().join("log")).unwrap();
        let mut command = signals::evbd();
        command.arg("run").arg(dir.path().join("evb.toml")).arg("--quiet").stdout(Stdio::null()).stderr(log);
        command.arg("--summary").arg(dir.path().join("summary.json"));
        Self { evbd: command.env("EVBD_LOG", "info").spawn().unwrap(), trigger: ports[1], dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn log(&self) -> String {
        system::log(self.path())
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: &str) {
        signals::send(signal, [&self.evbd]);
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.evbd.wait().unwrap()
    }

    pub(crate) fn does(&self, words: &[&str]) {
        let output = system::ctl(self.path(), words);
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.log());
    }
}

impl Drop for Crate {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.evbd.kill();
        let _ = self.evbd.wait();
    }
}

/// Returns the configuration of a source with a board.
pub(crate) fn source(id: u16, port: u16) -> String {
    format!(
        "[[source]]\nid = {id}\nmax_fragment = \"8 KiB\"\ncounter = {{ bits = 16, first = 0 }}\n\
         clock = {{ rate = \"125 MHz\", bits = 48 }}\n\
         input = {{ kind = \"tcp\", connect = \"127.0.0.1:{port}\", frame = {{ magic = \"eb90\", header = {HEADER}, \
         keep = \"payload\", length = {{ at = 2, bytes = 2, counts = \"payload\" }}, counter = {{ at = 4, bytes = 2 }}, \
         clock = {{ at = 6, bytes = 6 }} }} }}\n"
    )
}
