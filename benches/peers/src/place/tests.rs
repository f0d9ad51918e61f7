use super::*;

fn words(command: &Command) -> Vec<String> {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_process_starts_on_its_host() {
    let mut command = Place::Lab.command(Host::Builder(2), "/opt/evbd");
    assert_eq!(words(command.arg("run")), ["ip", "netns", "exec", "evb-b2", "/opt/evbd", "run"]);
    assert_eq!(words(&Place::Loopback.command(Host::Builder(2), "/opt/evbd")), ["/opt/evbd"]);
}

#[test]
fn every_host_has_its_address() {
    let hosts = [Host::Supervisor, Host::Source(12), Host::Builder(3)];
    assert_eq!(hosts.map(|host| Place::Lab.address(host)), ["10.77.3.1", "10.77.1.12", "10.77.2.3"]);
    assert!(hosts.iter().all(|host| Place::Loopback.address(*host) == "127.0.0.1"));
}

#[test]
fn missing_hosts_are_named() {
    let listed = "evb-b1 (id: 4)\nevb-s2 (id: 3)\nevb-s1\nevb-sup (id: 1)\nevb-sw (id: 0)\n";
    assert!(missing(listed, 2, 1).is_empty());
    assert_eq!(missing(listed, 3, 2), ["evb-s3", "evb-b2"]);
    assert_eq!(missing("", 1, 1).len(), 4);
}

#[test]
fn drops_are_those_of_the_ports() {
    let json = r#"[
        {"kind": "noqueue", "dev": "lo", "drops": 100},
        {"kind": "tbf", "dev": "p-s1", "drops": 2},
        {"kind": "tbf", "dev": "p-b1", "drops": 40},
        {"kind": "clsact", "dev": "p-b1", "drops": 1000}
    ]"#;
    assert_eq!(port_drops(json).expect("well formed"), 42);
    assert!(port_drops("[]").is_err(), "no port");
    assert!(port_drops(r#"[{"kind": "tbf", "dev": "p-s1"}]"#).is_err(), "no count");
}
