use std::{collections::BTreeMap, net::IpAddr};

use evb_config::{Loaded, read};
use evb_core::id::{BuilderId, Peer, SourceId};

use super::{Found, Locations, look_up, role_hosts::role_hosts, this_host::OwnHost};

const SUPERVISOR: Peer = Peer::Supervisor;

fn source(id: u16) -> Peer {
    Peer::Source(SourceId::new(id))
}

fn builder(id: u16) -> Peer {
    Peer::Builder(BuilderId::new(id))
}

/// Returns a configuration with the supervisor and builder 1 at these hosts, and with `sources`,
/// the text of its source sections.
fn system(supervisor: &str, built: &str, sources: &str) -> Loaded {
    let text = format!(
        "[supervisor]\nlisten = \"{supervisor}:7000\"\ntrigger = \"as-fast-as-possible\"\n[security]\nmode = \"none\"\n\
         [[builder]]\nid = 1\nlisten = \"{built}:7101\"\nsink = \"null\"\n{sources}"
    );
    read(&text, "evb.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

fn one_source(keys: &str) -> String {
    format!("[[source]]\nid = 1\n{keys}\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n")
}

/// Returns the host `daq1` with addresses of several kinds: IPv4, IPv6 and loopback.
fn own() -> OwnHost {
    let addresses = ["10.0.0.1", "192.168.7.1", "fd77::1", "127.0.0.1", "::1"];
    let named = addresses.iter().map(|text| (address(text), "eth0".to_owned()));
    OwnHost { name: "daq1.lab.example".to_owned(), addresses: Ok(named.collect()) }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Replaces the resolver: returns the addresses of made-up host names.
fn found(host: &str) -> Found {
    let names = BTreeMap::from([
        ("daq1", vec!["10.0.0.1", "fd77::1"]),
        ("daq2", vec!["10.0.0.2"]),
        ("daq3", vec!["10.0.0.3", "fd77::3"]),
        ("here-by-debian", vec!["127.0.1.1"]),
        ("all-of-them", vec!["10.0.0.2", "10.0.0.1"]),
    ]);
    match names.get(host) {
        Some(addresses) => Ok(addresses.iter().map(|text| address(text)).collect()),
        None => {
            host.parse().map(|literal| vec![literal]).map_err(|_| "not known here: no such name".to_owned())
        }
    }
}

fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || own().addresses.is_ok_and(|own| own.iter().any(|(mine, _)| *mine == address))
}

fn seen(loaded: &Loaded) -> Locations<'_> {
    Locations::new(role_hosts(&loaded.config), own(), found, is_own)
}

fn here(loaded: &Loaded) -> Vec<Peer> {
    let locations = seen(loaded);
    let problems = locations.problems(&loaded.origin);
    assert!(!problems.are_fatal(), "{problems}");
    locations.here()
}

/// Returns the problems as text; at least one problem must be on this line.
fn wrong(loaded: &Loaded, line: usize) -> String {
    let problems = seen(loaded).problems(&loaded.origin);
    let lines: Vec<usize> = problems.iter().map(|problem| problems.line_of(problem)).collect();
    assert!(problems.are_fatal() && lines.contains(&line), "line {line}: {problems}");
    problems.to_string()
}

#[test]
fn roles_are_here_by_any_address_and_by_name() {
    let bound = |address: &str| one_source(&format!("bind = \"{address}\""));
    let cases = [
        (system("10.0.0.1", "10.0.0.2", &bound("10.0.0.3")), vec![SUPERVISOR]),
        (system("10.0.0.9", "192.168.7.1", &bound("fd77::1")), vec![builder(1), source(1)]),
        (system("daq2", "daq1", &one_source("host = \"daq1\"")), vec![builder(1), source(1)]),
        (system("daq2", "[fd77::1]", &one_source("host = \"daq3\"")), vec![builder(1)]),
        // This host's own name identifies this host even if the name cannot be resolved.
        (system("daq2", "daq3", &one_source("host = \"DAQ1.lab.example\"")), vec![source(1)]),
        (system("daq2", "daq3", &one_source("host = \"daq1.else.example\"")), vec![]),
        // Debian's /etc/hosts maps a host's own name to a loopback address.
        (system("daq2", "daq3", &one_source("host = \"here-by-debian\"")), vec![source(1)]),
    ];
    for (loaded, expected) in cases {
        assert_eq!(here(&loaded), expected);
    }
}

#[test]
fn a_source_is_where_it_takes_fragments() {
    let tcp = |listen: &str, more: &str| {
        format!("[[source]]\nid = 1\n{more}\ninput = {{ kind = \"tcp\", listen = \"{listen}:7200\" }}\n")
    };
    assert_eq!(here(&system("daq2", "daq3", &tcp("10.0.0.1", ""))), [source(1)]);
    assert_eq!(here(&system("daq2", "daq3", &tcp("10.0.0.3", ""))), []);
    for everywhere in ["0.0.0.0", "[::]", "127.0.0.1"] {
        let said = wrong(&system("daq2", "daq3", &tcp(everywhere, "")), 13);
        assert!(said.contains("which host runs source 1") && said.contains("add host = "), "{said}");
        assert_eq!(here(&system("daq2", "daq3", &tcp(everywhere, "host = \"daq1\""))), [source(1)]);
    }
    // The front ends that send to the source may be on other hosts, although all roles are on one
    // host.
    assert_eq!(
        here(&system("127.0.0.1", "[::1]", &tcp("10.0.0.1", ""))),
        [SUPERVISOR, builder(1), source(1)]
    );
    // The unspecified address 0.0.0.0 does not identify a host.
    let bound = system("daq2", "daq3", &one_source("bind = \"0.0.0.0\"\nhost = \"daq1\""));
    assert_eq!(here(&bound), [source(1)]);
}

#[test]
fn a_source_of_no_host_is_refused_once_with_its_line() {
    let many = "[[source]]\nids = \"1-20\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
    let loaded = system("daq1", "daq2", many);
    let said = wrong(&loaded, 12);
    assert!(said.contains("sources 1-20") && said.contains("= key: source.host"), "{said}");
    assert_eq!(seen(&loaded).problems(&loaded.origin).iter().count(), 1, "{said}");
}

#[test]
fn loopback_is_one_host_and_nothing_else_is_there() {
    let nowhere = one_source("");
    let alone = system("127.0.0.1", "[::1]", &nowhere);
    assert!(seen(&alone).are_on_loopback());
    assert_eq!(here(&alone), [SUPERVISOR, builder(1), source(1)]);

    let said = wrong(&system("127.0.0.1", "10.0.0.1", &nowhere), 2);
    assert!(said.contains("supervisor is on loopback (`127.0.0.1`)"), "{said}");
    assert!(said.contains("builder 1 is on 10.0.0.1"), "{said}");
    let said = wrong(&system("127.0.0.1", "127.0.0.1", &one_source("host = \"daq1\"")), 2);
    assert!(said.contains("source 1 is on daq1"), "{said}");
    let said = wrong(&system("daq1", "127.0.0.1", &nowhere), 8);
    assert!(
        said.contains("builder 1 is on loopback") && said.contains("but the supervisor is on daq1"),
        "{said}"
    );
    let said = wrong(&system("daq2", "here-by-debian", &one_source("host = \"daq3\"")), 8);
    assert!(said.contains("127.0.1.1 on this host") && said.contains("/etc/hosts"), "{said}");
}

#[test]
fn a_name_of_several_hosts_is_refused() {
    let said = wrong(&system("all-of-them", "daq2", &one_source("host = \"daq3\"")), 2);
    for part in
        ["10.0.0.1, which is this host's", "10.0.0.2, which is not", "two hosts would run the supervisor"]
    {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn who_has_no_role_is_told_what_was_compared() {
    let loaded = system("daq2", "daq33", &one_source("host = \"daq3\""));
    let locations = seen(&loaded);
    assert_eq!(here(&loaded), []);
    let said = locations.nobody_here("evb.toml");
    for part in [
        "no role of evb.toml belongs to this host",
        "daq1.lab.example: 10.0.0.1 (eth0), 192.168.7.1 (eth0), fd77::1 (eth0)",
        "supervisor  (10.0.0.2)",
        "builder 1  (not known here: no such name)",
        "source 1  (10.0.0.3, fd77::3)",
        "`daq33` has no address here: if it is this host, correct its spelling",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    assert_eq!(locations.unknown().keys().copied().collect::<Vec<_>>(), ["daq33"]);
    let object = locations.json();
    assert_eq!(object["hosts"][1]["unknown"], "not known here: no such name");
    assert_eq!(object["hosts"][2]["addresses"][1], "fd77::3");
    assert_eq!(object["roles"], serde_json::json!([]));
}

#[test]
fn names_are_looked_up_once_each_and_many_at_a_time() {
    let hosts = ["localhost", "127.0.0.7", "no-such-host.invalid", "fd77::5"];
    let found = look_up(hosts.into_iter().collect());
    assert_eq!(found.len(), 4);
    assert!(found["localhost"].iter().flatten().all(IpAddr::is_loopback));
    assert_eq!(found["127.0.0.7"], Ok(vec![address("127.0.0.7")]));
    assert_eq!(found["fd77::5"], Ok(vec![address("fd77::5")]));
    assert!(found["no-such-host.invalid"].as_ref().is_err_and(|reason| reason.starts_with("not known here")));
}
