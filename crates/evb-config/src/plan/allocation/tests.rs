use std::time::Duration;

use super::{Allocation, AllocationError};
use crate::{Config, admission::admit, plan::tests::command_line, read};

fn text(line: &str) -> String {
    let arguments = command_line(line);
    Allocation::new(&arguments, Duration::from_micros(200)).unwrap_or_else(|error| panic!("{error}")).text()
}

fn planned(line: &str) -> Config {
    let text = text(line);
    let loaded = read(&text, "plan").unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let (_, problems) = admit(&loaded, None);
    assert!(!problems.are_fatal(), "{problems}\n{text}");
    loaded.config
}

/// Returns the hosts of the supervisor, of sources and of builders.
fn hosts(config: &Config) -> (&str, Vec<&str>, Vec<&str>) {
    let sources = config.sources.iter().map(|source| source.host.as_deref().expect("a host"));
    let builders = config.builders.iter().map(|builder| builder.listen.host.as_str());
    (&config.supervisor.listen.host, sources.collect(), builders.collect())
}

#[test]
fn every_host_but_the_first_of_many_has_a_source_and_a_builder() {
    let config = planned("--hosts n1 n2 n3 n4");
    assert_eq!(hosts(&config), ("n1", vec!["n2", "n3", "n4"], vec!["n4", "n3", "n2"]));
    assert_eq!(hosts(&planned("--hosts n1,n2")), ("n1", vec!["n1", "n2"], vec!["n2", "n1"]));
    assert_eq!(hosts(&planned("--hosts n1,n1 n1")), ("n1", vec!["n1"], vec!["n1"]));
    let few = planned("--hosts n1,n2,n3,n4 --sources 2 --builders 1");
    assert_eq!(hosts(&few), ("n1", vec!["n2", "n3"], vec!["n4"]));
    let many = planned("--hosts a,b,c --sources 5 --builders 3");
    assert_eq!(hosts(&many), ("a", vec!["b", "c", "b", "c", "b"], vec!["c", "b", "c"]));
}

#[test]
fn five_thousand_hosts_have_as_many_roles_as_a_run_can() {
    let names: Vec<String> = (0..5000).map(|number| format!("node{number:04}")).collect();
    let config = planned(&format!("--hosts {}", names.join(" ")));
    assert_eq!((config.sources.len(), config.builders.len()), (4096, 1024));
}

#[test]
fn the_command_line_is_in_the_configuration() {
    let line = "--hosts n1,n2,n3 --events 100000 --trigger-rate 2kHz --event-size 8kB --port 21000 --out /scratch/out --key-file /scratch/key";
    let text = text(line);
    for part in [
        "events = 100000",
        "rate = \"2 kHz\"",
        "size = \"4000 B\"",
        "listen        = \"n1:21000\"",
        "listen = \"n2:21102\"",
        "path = \"/scratch/out\"",
        "key_file = \"/scratch/key\"",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("[network]"), "{text}");
    planned(line);
    let fast = planned("--hosts n1,n2,n3 --link-rate 10Gbit/s --port-buffer 512KiB --event-size 64kB");
    assert_eq!(fast.network.port_buffer.map(|buffer| buffer.count()), Some(512 * 1024));
    assert!(fast.supervisor.slots.is_some());
    assert_eq!(planned("--hosts fd77::1,fd77::2").supervisor.listen.to_string(), "[fd77::1]:7000");
}

#[test]
fn what_is_no_host_is_refused_and_a_short_list_is_known() {
    let refused = |hosts: &str| {
        let arguments = command_line(&format!("--hosts {hosts}"));
        Allocation::new(&arguments, Duration::from_micros(200)).expect_err("no hosts")
    };
    let short = refused("n[1-3,7]").to_string();
    assert!(short.contains("scontrol show hostnames 'n[1-3,7]'"), "{short}");
    assert!(matches!(refused("n1,n[2-3]"), AllocationError::Short(_)));
    assert!(matches!(refused("n1 n2:7000"), AllocationError::NoHost(host) if host == "n2:7000"));
    assert!(matches!(refused("n1 0.0.0.0"), AllocationError::NoHost(_)));
    assert!(matches!(refused(","), AllocationError::Empty));
}
