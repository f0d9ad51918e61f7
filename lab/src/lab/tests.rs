use std::{process::Command, sync::Mutex};

use clap::Parser;
use evb_needs::{Missing, granted, programs, skip};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    lab: LabArgs,
}

#[test]
fn faults_come_over_the_transport_that_is_named() {
    let transports = |line: &str| Line::parse_from(line.split(' ')).lab.transports();
    for scenario in ["chaos", "soak", "deaths"] {
        assert_eq!(transports(&format!("lab {scenario} --transport udp")), [Transport::Udp]);
        assert_eq!(transports(&format!("lab {scenario}")), [Transport::Tcp, Transport::Udp]);
    }
    assert_eq!(transports("lab incast"), [Transport::Tcp]);
}

/// The commands of the studies in `docs/studies` that are not marked as planned.
#[test]
fn the_commands_of_the_studies_are_accepted() {
    let list = fs::read_to_string(checkout::root().join("docs/studies/studies.toml")).unwrap();
    let studies = list.split("[[study]]\n").filter(|study| !study.contains("\nplanned "));
    let words = studies.flat_map(str::lines).filter_map(|line| line.split('"').nth(1));
    let lines: Vec<&str> = words.filter_map(|line| line.strip_prefix("cargo xtask ")).collect();
    assert!(!lines.is_empty());
    for line in lines {
        Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    assert!(Line::try_parse_from("lab nothing".split(' ')).is_err());
}

#[test]
fn what_is_lacking_is_not_the_probe_itself() {
    // A mistake in the shell script that probes the kernel would look like a kernel that lacks a
    // feature, so this test looks for messages of such mistakes.
    let reason = lacks().unwrap_or_default();
    for mistake in ["invalid", "nvalid argument", "syntax", "Usage", "garbage", "What is"] {
        assert!(!reason.contains(mistake), "{reason}");
    }
}

/// Held by the tests that bring a network up, because only one can be up at a time.
static ONE_NETWORK: Mutex<()> = Mutex::new(());

/// Returns a real network; says what is missing and returns `None` if there cannot be one.
fn network(shape: Shape) -> Option<Network> {
    let a_lab =
        || lacks().map_or(Ok(()), |reason| Err(Missing::new("a machine for the lab").because(reason)));
    granted(programs(&["ping"]).and_then(|()| a_lab()))?;
    match Network::up(shape) {
        Ok(network) => Some(network),
        Err(error) if format!("{error:#}").contains("a lab is up") => {
            skip(&Missing::new("the lab to itself").because("another lab is up"));
            None
        }
        Err(error) => panic!("{error:#}"),
    }
}

/// Returns the output of `ping` from a host of the network.
fn ping(network: &Network, host: &str, arguments: &[&str]) -> String {
    let output = network.command(host, "ping").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Brings up a network of three switches, and checks that packets take the way of their trunk, and
/// that each trunk has its part of a port with turns.
#[test]
fn packets_take_their_trunk() {
    let _alone = ONE_NETWORK.lock();
    let tree = Tree::Merge { first: 1, each: Link { rate: 20_000_000, buffer: 16 * 1024 } };
    let shape =
        Shape { sources: 2, builders: 1, rate: 10_000_000, port_buffer: 24 * 1024, tree, ..Shape::PLAIN };
    let Some(network) = network(shape) else { return };
    assert!(ping(&network, "s1", &["-c3", "-i0.01", "-s1000", "10.77.2.1"]).contains(" 0% packet loss"));
    let ports = network.ports().unwrap();
    let bytes = |name: &str| ports[name].bytes;
    for (passed, idle) in [("trunk first up", "trunk second up"), ("trunk first down", "trunk second down")] {
        assert!(bytes(passed) >= 3 * 1000 && bytes(idle) < 3 * 1000, "{ports:?}");
    }
    assert!(bytes("b1") >= 3 * 1000, "{ports:?}");
    let said = network.on_switch("tc").args(["-s", "qdisc", "show", "dev", "p-b1"]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.matches("limit 8Kb").count(), 3, "{said}");
}

/// Brings a real network up and checks that pings pass, that the switch port counts its drops, that
/// random loss drops packets, and that no namespace is left in the end.
#[test]
fn a_small_network_comes_up_and_goes() {
    let _alone = ONE_NETWORK.lock();
    let shape = Shape { sources: 2, builders: 1, rate: 10_000_000, port_buffer: 8 * 1024, ..Shape::PLAIN };
    let Some(network) = network(shape) else { return };
    let ping = |host: &str, arguments: &[&str]| ping(&network, host, arguments);
    assert!(ping("s1", &["-c2", "-i0.01", "10.77.2.1"]).contains(" 0% packet loss"));
    assert_eq!(network.ports().unwrap()["b1"].drops, 0);
    assert!(Network::up(shape).is_err(), "a second lab is refused, and the refusal leaves the first alone");
    // Incast: the port's buffer of 8 KiB holds five full packets, and two hosts whose links have
    // the rate of the port overflow it immediately.
    let both = ["s1", "s2"].map(|host| {
        let flood = ["-c8", "-l8", "-i0.002", "-W1", "-s17000", "10.77.2.1"];
        network.command(host, "ping").args(flood).stdout(std::process::Stdio::null()).spawn().unwrap()
    });
    for mut flood in both {
        flood.wait().unwrap();
    }
    assert!(network.ports().unwrap()["b1"].drops > 0, "{:?}", network.ports());
    network.loss("b1", 100.0).unwrap();
    let before = network.ports().unwrap()["b1"].drops;
    assert!(ping("s2", &["-c3", "-i0.01", "-W1", "10.77.2.1"]).contains("100% packet loss"));
    assert_eq!(network.ports().unwrap()["b1"].drops, before, "random losses are not the port's drops");
    network.loss("b1", 0.0).unwrap();
    assert!(ping("s2", &["-c2", "-i0.01", "10.77.2.1"]).contains(" 0% packet loss"));
    drop(network);
    let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains("evb-"));
}
