//! Every kind of input, tested from its data to the event file through `evbd run`.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use evb::{
    event::Event,
    id::{EventId, SourceId},
    input::km3net::{Timeslices, rebuild_timeslice},
    trigger_feed::TriggerFeed,
    units::Frequency,
};
use evb_file::{EventFile, files_at};

const TIMESLICES: &str = "examples/data/km3net_l1_timeslices.dat";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn free_port() -> u16 {
    evb_needs::free_ports(1)[0]
}

/// Returns a configuration with the given trigger and sources, and two builders that write into
/// `out`.
fn config(events: u64, trigger: &str, sources: &str, out: &Path) -> String {
    let mut text = format!(
        "[run]\nevents = {events}\n[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {trigger}\ndeadline = \"20 s\"\n{sources}\n",
        free_port()
    );
    for id in 1..=2 {
        let (port, out) = (free_port(), out.display());
        let sink = format!("{{ kind = \"file\", path = \"{out}\" }}");
        let _ = write!(text, "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\nsink = {sink}\n");
    }
    text
}

fn start(dir: &Path, config: &str) -> Child {
    let path = dir.join("config.toml");
    fs::write(&path, config).expect("the configuration is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.current_dir(root()).args(["run", "--quiet"]).arg(path);
    command.stderr(Stdio::piped()).spawn().expect("evbd starts")
}

/// Waits for the end of the run, which must succeed, and returns the log.
fn finish(mut run: Child) -> String {
    let limit = Instant::now() + Duration::from_secs(60);
    while run.try_wait().expect("evbd is ours").is_none() {
        if Instant::now() > limit {
            let _ = run.kill();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = run.wait_with_output().expect("evbd is ours");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    log
}

/// Returns all events in the folder's files, in order.
fn events(out: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    for path in files_at(out).expect("event files") {
        let file = EventFile::open(path).expect("an event file");
        events.extend(file.events().map(|event| event.expect("an intact event")));
    }
    events.sort_by_key(|event| event.id);
    events
}

#[test]
fn replayed_timeslices_come_back_byte_for_byte_and_so_does_their_recording() {
    let dir = tempfile::tempdir().expect("a directory");
    let trigger = "{ kind = \"periodic\", rate = \"1 kHz\" }";
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let clock = "{ rate = \"62.5 MHz\", bits = 64, accuracy = \"0 ppm\" }";
    let source = |input: &str| {
        format!("[[source]]\nids = \"1-15\"\nclock = {clock}\ninput = {{ kind = \"replay\", {input} }}\n")
    };
    let km3net = format!("path = \"{TIMESLICES}\", format = \"km3net\"");
    let recorded = format!("path = \"{}\", format = \"evb\"", first.display());
    for (input, out) in [(km3net, &first), (recorded, &second)] {
        finish(start(dir.path(), &config(20, trigger, &source(&input), out)));
        let bytes = fs::read(root().join(TIMESLICES)).expect("the timeslices");
        let slices = Timeslices::parse(&bytes).expect("timeslices");
        let events = events(out);
        assert_eq!(events.len(), 20);
        let states = events.iter().flat_map(Event::fragments).map(|part| part.alignment.to_string());
        let wanted = ["agrees", "not known"].map(ToOwned::to_owned).into();
        assert_eq!(states.collect::<BTreeSet<_>>(), wanted, "after the first events, all agree");
        for event in events {
            assert_eq!(rebuild_timeslice(&event).as_deref(), Ok(slices.of_event(event.id)), "{}", event.id);
        }
    }
}

/// Tries to connect until evbd listens.
fn until_there<T>(mut connect: impl FnMut() -> std::io::Result<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        match connect() {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < limit, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn payload(source: u16, event: u64) -> Vec<u8> {
    vec![source as u8 ^ event as u8; (event * 37 % 900) as usize]
}

/// Sends the fragments of events 1 to 300, backwards in groups of ten.
fn send(mut stream: impl Write, source: u16) {
    for group in 0..30 {
        for event in (group * 10 + 1..=group * 10 + 10).rev() {
            let payload = payload(source, event);
            let length = payload.len() as u32;
            let head = [&length.to_le_bytes()[..], &event.to_le_bytes(), &(event * 1000).to_le_bytes()];
            stream.write_all(&head.concat()).and_then(|()| stream.write_all(&payload)).expect("taken");
        }
    }
}

#[test]
fn front_ends_send_over_tcp_and_unix_sockets_and_a_bad_one_harms_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, socket) = (dir.path().join("out"), dir.path().join("two.sock"));
    let port = free_port();
    let sources = format!(
        "[[source]]\nid = 1\ninput = {{ kind = \"tcp\", listen = \"127.0.0.1:{port}\" }}\n[[source]]\nid = 2\ninput = {{ kind = \"unix\", path = \"{}\" }}\n",
        socket.display()
    );
    let run = start(dir.path(), &config(300, "{ kind = \"as-fast-as-possible\" }", &sources, &out));
    let mut bad = until_there(|| TcpStream::connect(("127.0.0.1", port)));
    bad.write_all(b"GET / HTTP/1.1\r\nHost: evb\r\n\r\n").expect("sent");
    // evbd closes the connection without an answer.
    assert!(matches!(bad.read(&mut [0; 16]), Ok(0) | Err(_)));
    let one = thread::spawn(move || send(until_there(|| TcpStream::connect(("127.0.0.1", port))), 1));
    let two = thread::spawn(move || send(until_there(|| UnixStream::connect(&socket)), 2));
    one.join().and_then(|()| two.join()).expect("both front-ends are done");
    let log = finish(run);
    assert!(log.contains("542393671 B, more than max_fragment"), "{log}");
    let events = events(&out);
    assert_eq!(events.len(), 300);
    for event in events {
        for source in [1, 2] {
            let fragment = event.fragment(SourceId::new(source)).expect("complete");
            assert_eq!(fragment.payload, payload(source, event.id.number()));
            assert_eq!(fragment.timestamp.ticks(), event.id.number() * 1000);
        }
    }
}

#[test]
fn sources_make_fragments_when_the_trigger_is_announced() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let group: SocketAddr = format!("239.255.71.3:{}", free_port()).parse().expect("an address");
    let trigger = format!("{{ kind = \"multicast\", group = \"{group}\", interface = \"127.0.0.1\" }}");
    let sources = "[[source]]\nids = \"1-3\"\ninput = { kind = \"generator\", size = { mean = \"2 kB\", sigma = \"500 B\" }, check = \"full\", on = \"multicast\" }\n";
    let run = start(dir.path(), &config(500, &trigger, sources, &out));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let log = runtime.block_on(async {
        let ended = tokio::task::spawn_blocking(|| finish(run));
        let mut feed = TriggerFeed::datagrams(group, Some("127.0.0.1")).await.expect("a feed");
        // Triggers are sent from long before the run until its end.
        let rate = Frequency::from_hertz(1000.0).expect("a rate");
        tokio::select! {
            log = ended => log.expect("the run ends"),
            fed = feed.periodic(rate, Duration::from_secs(60)) => panic!("the run did not end: {fed:?}"),
        }
    });
    let events = events(&out);
    assert_eq!(events.len(), 500, "{log}");
    assert!(events.iter().all(Event::is_complete));
    assert_eq!(events[0].id, EventId::FIRST);
}
