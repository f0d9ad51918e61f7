//! `evb-bench trigger`, tested as a user runs it.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use evb_needs::{Missing, free_ports, granted};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn command(line: &str) -> Command {
    // A test in the background of a script would hand on that it ignores SIGINT.
    let mut command = Command::new("env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_evb-bench"), "trigger"])
        .args(line.split_whitespace());
    command
}

fn triggers(line: &str) -> Output {
    command(line).output().expect("evb-bench starts")
}

/// Returns a socket and the numbers of the announcements that arrive until none comes for a while.
fn listener(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("bound");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    socket
}

fn numbers(socket: &UdpSocket) -> Vec<u64> {
    let mut room = [0; 64];
    std::iter::from_fn(|| socket.recv(&mut room).ok().map(|length| (room, length)))
        .map(|(bytes, length)| {
            assert_eq!((&bytes[..4], length), (&b"evbt"[..], 20));
            u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"))
        })
        .collect()
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn every_kind_announces_its_count_in_order() {
    let socket = listener("127.0.0.1:0");
    let to = socket.local_addr().expect("an address");
    for kind in [
        "periodic",
        "poisson",
        "gaussian --sigma 250us",
        "burst --burst 8",
        "on-off --on 20ms --off 20ms --streams 8",
    ] {
        let output = triggers(&format!("--to {to} --kind {kind} --rate 2kHz --count 100 --json"));
        assert_eq!(output.status.code(), Some(0), "{kind}: {output:?}");
        assert_eq!(numbers(&socket), (1..=100).collect::<Vec<_>>(), "{kind}");
        let summary = summary(&output);
        assert_eq!((&summary["announced"], &summary["ended"]), (&100.into(), &"count".into()));
        assert!(summary["got_hz"].as_f64().is_some_and(|rate| rate > 0.0), "{summary}");
        assert!(summary["largest_delay_us"].as_f64().is_some_and(|delay| delay > 0.0), "{summary}");
    }
}

#[test]
fn a_group_is_reached_through_an_interface_by_address_or_name() {
    for (interface, last) in [("127.0.0.1", 1), ("lo", 2)] {
        let group = Ipv4Addr::new(239, 255, 77, 40 + last);
        let socket = listener(&format!("{group}:0"));
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).expect("joined");
        let port = socket.local_addr().expect("an address").port();
        let line = format!("--to {group}:{port} --interface {interface} --rate 1kHz --count 20");
        let output = triggers(&line);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(numbers(&socket), (1..=20).collect::<Vec<_>>(), "{interface}");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(page.contains("20 triggers announced") && page.contains("largest delay"), "{page}");
    }
}

#[test]
fn an_interrupted_command_ends_with_its_summary() {
    let socket = listener("127.0.0.1:0");
    let to = socket.local_addr().expect("an address");
    let mut line = command(&format!("--to {to} --rate 100Hz --json"));
    let child = line.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("evb-bench starts");
    let mut room = [0; 64];
    for _ in 0..5 {
        socket.recv(&mut room).expect("an announcement");
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("a process of this test");
    let output = child.wait_with_output().expect("evb-bench ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = summary(&output);
    assert_eq!(summary["ended"], "interrupted");
    assert!(summary["announced"].as_u64().is_some_and(|count| count >= 5), "{summary}");
}

#[test]
fn a_peer_that_does_not_listen_ends_the_command_unless_it_keeps_going() {
    let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)[0]));
    for count in [1, 1000] {
        let output = triggers(&format!("--to {closed} --rate 1kHz --count {count}"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no program listens"), "{output:?}");
    }
    let output = triggers(&format!("--to {closed} --rate 1kHz --count 50 --keep-going --json"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = summary(&output);
    assert_eq!(summary["announced"], 50);
    assert!(summary["refused"].as_u64().is_some_and(|refused| refused > 0), "{summary}");
    let port = free_ports(1)[0];
    let output = triggers(&format!("--to 127.0.0.1:{port} --tcp --rate 1kHz --count 1"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn lines_over_tcp_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let to = listener.local_addr().expect("an address");
    let reading = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("accepted");
        std::io::read_to_string(stream).expect("text")
    });
    let output = triggers(&format!("--to {to} --tcp --rate 1kHz --count 30"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = reading.join().expect("read");
    assert_eq!(text.lines().map(|line| line.parse::<u64>().expect("a count")).sum::<u64>(), 30);
}

#[test]
fn what_cannot_be_announced_exits_with_2_and_a_reason() {
    for (line, reason) in [
        ("--to 239.1.2.3:7002 --rate 1kHz", "state the network interface"),
        (
            "--to 239.1.2.3:7002 --rate 1kHz --interface no-such-device",
            "no network interface `no-such-device`",
        ),
        ("--to 239.1.2.3:7002 --rate 1kHz --interface 192.0.2.77", "check --interface"),
        ("--to 239.1.2.3:7002 --rate 1kHz --tcp", "leave out --tcp"),
        ("--to 127.0.0.1:7002 --rate 1kHz --interface lo", "not a multicast group"),
        ("--to 127.0.0.1 --rate 1kHz", "has no port"),
        ("--to 127.0.0.1:0 --rate 1kHz", "has no port"),
        ("--to 127.0.0.1:99999 --rate 1kHz", "has no port"),
        ("--to no-such-host.invalid:7002 --rate 1kHz", "cannot resolve `no-such-host.invalid:7002`"),
        ("--to 127.0.0.1:7002 --rate 0Hz", "above zero"),
        ("--to 127.0.0.1:7002 --rate 0", "above zero"),
        ("--to 127.0.0.1:7002 --rate 1kHz --kind magic", "invalid value"),
        ("--to 127.0.0.1:7002 --rate 1kHz --kind gaussian", "needs --sigma"),
        ("--to 127.0.0.1:7002 --rate 1kHz --count 0", "invalid value"),
    ] {
        let output = triggers(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(reason), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

/// The device states 10 Gbit/s; the test needs root.
#[test]
fn a_rate_above_that_of_the_link_exits_with_2() {
    let program = env!("CARGO_BIN_EXE_evb-bench");
    let set_up = "ip link add near type veth peer name far && ip addr add 10.84.0.1/24 dev near && \
                  ip link set near up && ip link set far up";
    let within = |line: &str| {
        let script = format!("({set_up}) || exit 77; {line}");
        Command::new("unshare").args(["--net", "--", "sh", "-c", &script]).output()
    };
    let possible = evb_needs::programs(&["unshare", "ip"]).and_then(|()| match within("true") {
        Ok(output) if output.status.success() => Ok(()),
        other => {
            Err(Missing::new("a network namespace with a link, as root").because(format_args!("{other:?}")))
        }
    });
    let Some(()) = granted(possible) else { return };
    for (to, interface) in [
        ("239.1.2.3:7002", "--interface near"),
        ("239.1.2.3:7002", "--interface 10.84.0.1"),
        ("10.84.0.9:7002", ""),
    ] {
        let line = format!("{program} trigger --to {to} {interface} --count 1 --rate");
        let output = within(&format!("{line} 15MHz")).expect("unshare starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("near carries 10 Gbit/s: lower --rate to at most 14534883 Hz"), "{said}");
    }
    let line = format!("{program} trigger --to 239.1.2.3:7002 --interface near --count 1 --rate 14MHz");
    assert_eq!(within(&line).expect("unshare starts").status.code(), Some(0));
}
