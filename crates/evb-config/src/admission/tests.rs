use evb_core::units::{Bytes, Rate};

use super::{Sums, admit};
use crate::{Problems, Severity, read};

const NETWORK: &str = "link_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"\n";

/// Returns the sums and problems of a system of `sources` sources with fragments of 64 kB and
/// `builders` builders, each on a separate host.
fn system(trigger: &str, network: &str, shaping: &str, sources: u16, builders: u16) -> (Sums, Problems) {
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = {trigger}\n\
         [network]\n{network}\n[shaping]\n{shaping}\n\
         [[source]]\nids = \"1-{sources}\"\nbind = \"10.0.1.{{id}}\"\ninput = {{ kind = \"generator\", size = \"64 kB\" }}\n\
         [[builder]]\nids = \"1-{builders}\"\nlisten = \"10.0.2.{{id}}:7101\"\nsink = \"null\"\n"
    );
    match read(&text, "test.toml") {
        Ok(loaded) => admit(&loaded, Some(Bytes::mib(16 * 1024))),
        Err(problems) => panic!("{problems}"),
    }
}

fn periodic(rate: &str) -> String {
    format!("{{ kind = \"periodic\", rate = \"{rate}\" }}")
}

#[test]
fn the_sums_of_an_incast() {
    let (sums, problems) = system(&periodic("150 Hz"), NETWORK, "", 8, 1);
    assert!(problems.is_empty(), "{problems}");
    // Eight fragments of 64 000 B with headers of 16 B are sent in packets of 1448 B, each of which
    // takes 1538 B of the line: 543 959.2 B.
    assert_eq!(sums.event.payload, Some(Bytes::new(512_000)));
    assert_eq!(sums.event.line, Some(Bytes::new(543_960)));
    // Each fragment, behind a record header of 16 bytes, fills 44 packets, and leaves 320 bytes for
    // a last one with 66 bytes of headers.
    assert_eq!(sums.event.burst, Some(Bytes::new(8 * (44 * 1514 + 320 + 66))));
    let port = &sums.ports[0];
    assert_eq!(port.load, Some(Rate::from_bits_per_second(543_960 * 8 * 150)));
    assert_eq!(port.budget, Bytes::new(117_964));
    // The default grant is nine full packets.
    assert_eq!(port.chunks, 117_964 / (9 * 1514));
    assert!((sums.carried.expect("known") - 1e9 / 8.0 / 543_960.0).abs() < 1e-6);
    assert_eq!(sums.memory[0].needed, Bytes::new(16 * (512_000 + 8 * (16 << 10))));
    assert_eq!(sums.memory[0].limit, Some(Bytes::mib(16 * 1024) / 100 * 80));
}

#[test]
fn a_port_that_is_asked_too_much_is_refused_and_says_how_much_would_do() {
    for trigger in [periodic("230 Hz"), "{ kind = \"poisson\", rate = \"230 Hz\" }".into()] {
        let (_, problems) = system(&trigger, NETWORK, "", 8, 1);
        let shown = problems.to_string();
        assert!(problems.are_fatal() && shown.contains("supervisor.trigger.rate"), "{shown}");
        assert!(
            shown.contains("ask for at most 229 events/s") && shown.contains("admission = \"warn\""),
            "{shown}"
        );
        assert!(shown.contains("--> test.toml:5:"), "{shown}");
    }
    let (_, problems) = system(&periodic("300 Hz"), "link_rate = \"10 Mbit/s\"", "", 8, 1);
    assert!(problems.to_string().contains("ask for at most 2.29 events/s"), "{problems}");
    assert!(!system(&periodic("229 Hz"), NETWORK, "", 8, 1).1.are_fatal());
    assert!(!system(&periodic("458 Hz"), NETWORK, "", 8, 2).1.are_fatal());
}

#[test]
fn an_overload_may_be_meant() {
    let network = format!("{NETWORK}admission = \"warn\"");
    let (sums, problems) = system(&periodic("460 Hz"), &network, "", 8, 1);
    assert!(!problems.are_fatal() && !problems.is_empty());
    assert!(problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert!(sums.ports[0].utilisation.expect("known") > 2.0);
}

#[test]
fn a_source_sends_a_fragment_of_every_event() {
    // With two sources and eight builders, the builder ports are idle, but the links from the
    // sources are overloaded.
    let (sums, problems) = system(&periodic("2 kHz"), NETWORK, "", 2, 8);
    assert!(problems.are_fatal() && problems.to_string().contains("link from 10.0.1."), "{problems}");
    assert!(sums.ports[0].utilisation.expect("known") < 0.5);
}

#[test]
fn windows_must_fit_into_the_port() {
    let mode = "mode = \"window\"";
    let trigger = "\"as-fast-as-possible\"";
    assert!(!system(trigger, NETWORK, mode, 8, 1).1.are_fatal());
    let (_, problems) = system(trigger, NETWORK, &format!("{mode}\nwindow = \"16 kB\""), 8, 1);
    assert!(
        problems.to_string().contains("8 lanes (source to builder) with a window of 16 kB put up to"),
        "{problems}"
    );
    assert!(problems.to_string().contains("shaping.window"), "{problems}");
    assert!(!system(trigger, NETWORK, &format!("{mode}\nwindow = \"14 kB\""), 8, 1).1.are_fatal());
}

#[test]
fn a_budget_must_fit_into_the_port_with_a_margin() {
    let of =
        |budget: &str| system("\"as-fast-as-possible\"", NETWORK, &format!("budget = \"{budget}\""), 8, 1).1;
    assert!(of("115 KiB").is_empty());
    assert!(!of("120 KiB").are_fatal() && !of("120 KiB").is_empty());
    assert!(of("129 KiB").are_fatal());
}

#[test]
fn token_buckets_must_fit_the_link_and_the_port() {
    let of = |shaping: &str, sources, builders| {
        let shaping = format!("mode = \"token-bucket\"\n{shaping}");
        system("\"as-fast-as-possible\"", NETWORK, &shaping, sources, builders).1
    };
    assert!(of("", 8, 1).is_empty());
    assert!(of("rate = \"125 Mbit/s\"", 8, 1).is_empty());
    assert!(of("rate = \"126 Mbit/s\"", 8, 1).to_string().contains("add up to 1.008 Gbit/s at the port"));
    assert!(of("rate = \"300 Mbit/s\"", 2, 4).to_string().contains("on the link from"));
    assert!(of("burst = \"20 kB\"", 8, 1).to_string().contains("shaping.burst"));
}

#[test]
fn a_lane_slower_than_its_trigger_is_refused() {
    let (_, problems) = system(&periodic("100 Hz"), "", "rate = \"50 Mbit/s\"", 8, 1);
    assert!(
        problems.are_fatal() && problems.to_string().contains("a lane (source to builder) needs"),
        "{problems}"
    );
    assert!(!system(&periodic("100 Hz"), "", "rate = \"60 Mbit/s\"", 8, 1).1.are_fatal());
}

#[test]
fn no_more_events_are_under_way_than_a_source_can_be_told_of() {
    let system = |builders: u16, slots: u32| {
        let text = format!(
            "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = \"as-fast-as-possible\"\nslots = {slots}\n\
             [[source]]\nid = 1\nmax_fragment = \"1 B\"\ninput = {{ kind = \"generator\", size = \"1 B\" }}\n\
             [[builder]]\nids = \"1-{builders}\"\nlisten = \"10.0.2.{{id}}:7101\"\nsink = \"null\"\n"
        );
        admit(&read(&text, "test.toml").expect("valid"), Some(Bytes::mib(16 * 1024))).1
    };
    assert!(!system(16, 65_535).are_fatal(), "{}", system(16, 65_535));
    let shown = system(17, 65_535).to_string();
    assert!(shown.contains("more than 1048576 events") && shown.contains("at most 61680 slots"), "{shown}");
    assert!(shown.contains("--> test.toml:6:"), "{shown}");
    assert!(!system(17, 61_680).are_fatal());
}

#[test]
fn memory_is_never_overcommitted() {
    let text = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = \"as-fast-as-possible\"\n[network]\nadmission = \"warn\"\n\
                [[source]]\nids = \"1-10\"\ninput = { kind = \"tcp\", listen = \"127.0.0.1:{7200+id}\" }\n\
                [[builder]]\nids = \"1-2\"\nlisten = \"127.0.0.1:{7100+id}\"\nsink = \"null\"\n";
    let loaded = read(text, "test.toml").expect("valid");
    // 16 slots × 10 sources × (4 MiB + 16 KiB) = 642.5 MiB of memory for each of the two builders
    // on one machine.
    let (sums, problems) = admit(&loaded, Some(Bytes::mib(1500)));
    assert_eq!(sums.memory[0].needed, Bytes::kib(657_920));
    // 32 fragments of 4 MiB, a backlog of 256 MiB, room for four more fragments, and 256 read
    // buffers of 64 KiB.
    assert_eq!(sums.source_memory[9].1, Bytes::mib(32 * 4 + 256 + 4 * 4 + 16));
    assert!(problems.are_fatal() && problems.to_string().contains("supervisor.slots"), "{problems}");
    assert!(!admit(&loaded, Some(Bytes::mib(1700))).1.are_fatal());
    assert!(!admit(&loaded, None).1.are_fatal());
    let stated = read(&format!("{text}memory = \"643 MiB\"\n"), "test.toml").expect("valid");
    assert!(!admit(&stated, Some(Bytes::mib(1500))).1.are_fatal());
}

#[test]
fn without_shaping_drops_are_foretold() {
    let (_, problems) = system("\"as-fast-as-possible\"", NETWORK, "mode = \"none\"", 8, 1);
    assert!(!problems.are_fatal() && problems.to_string().contains("packets will be lost"), "{problems}");
}

#[test]
fn the_design_load_of_a_large_system_is_admitted() {
    // 22 sources, 15 builders and events of 32 kB at 1 kHz over 50 Mbit/s use a third of each
    // port's rate.
    let text = "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.77.3.1:7000\"\n\
                trigger = { kind = \"poisson\", rate = \"1 kHz\" }\n\
                [network]\nlink_rate = \"50 Mbit/s\"\nport_buffer = \"160 KiB\"\n\
                [[source]]\nids = \"1-22\"\nbind = \"10.77.1.{id}\"\ninput = { kind = \"generator\", size = \"1455 B\" }\n\
                [[builder]]\nids = \"1-15\"\nlisten = \"10.77.2.{id}:7101\"\nsink = \"null\"\n";
    let (sums, problems) = admit(&read(text, "test.toml").expect("valid"), None);
    assert!(problems.is_empty(), "{problems}");
    let port = sums.ports[0].utilisation.expect("known");
    assert!((0.34..0.38).contains(&port), "{port}");
    assert_eq!((sums.ports.len(), sums.uplinks.len()), (15, 22));
}

#[test]
fn jumbo_frames_make_a_port_shallow() {
    let network = format!("{NETWORK}transport = \"udp\"\nmtu = 9000\n");
    let (_, problems) = system(&periodic("100 Hz"), &network, "", 8, 1);
    let shown = problems.to_string();
    assert!(!problems.are_fatal() && shown.contains("only 14 packets"), "{shown}");
    let usual = format!("{NETWORK}transport = \"udp\"\n");
    assert!(system(&periodic("100 Hz"), &usual, "", 8, 1).1.is_empty());
}

#[test]
fn a_counter_that_starts_anywhere_needs_a_clock() {
    let system = |more: &str| {
        let text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
             [[source]]\nids = \"1-3\"\ninput = {{ kind = \"unix\", path = \"{{id}}.sock\" }}\n{more}\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n"
        );
        admit(&read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}")), None).1
    };
    let found = system("counter = { bits = 16, first = \"any\" }");
    assert!(!found.are_fatal());
    let shown = found.to_string();
    for word in ["source.counter", "test.toml:7:", "the first fragment of sources 1-3 counts as event 1"] {
        assert!(shown.contains(word), "{shown}");
    }
    for more in [
        "counter = { bits = 16, first = 0 }",
        "counter = { bits = 16, first = \"any\" }\nclock = { rate = \"125 MHz\", bits = 48 }",
    ] {
        assert!(system(more).is_empty(), "{}", system(more));
    }
}
