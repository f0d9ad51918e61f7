use evb_core::units::Bytes;

use super::{admit, head, json, text};
use crate::{
    Loaded,
    admission::{self, GrantPaths, Sums, planning},
    read,
};

pub(super) fn whole(loaded: &Loaded, sums: &Sums) -> String {
    text(&loaded.config, sums, &planning(&loaded.config, sums, &GrantPaths::assumed()))
}

pub(super) const INCAST: &str = "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.77.3.1:7000\"\n\
    trigger = { kind = \"periodic\", rate = \"150 Hz\" }\n\
    [network]\nlink_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"\n\
    [[source]]\nids = \"1-8\"\nbind = \"10.77.1.{id}\"\ninput = { kind = \"generator\", size = \"64 kB\" }\n\
    [[builder]]\nid = 1\nlisten = \"10.77.2.1:7101\"\nsink = \"null\"\n";

#[test]
fn the_page_shows_the_sums() {
    let loaded = read(INCAST, "test.toml").expect("valid");
    let (sums, problems) = admission::admit(&loaded, Some(Bytes::mib(1024)));
    let page = whole(&loaded, &sums);
    for part in [
        "8 sources, 1 builder",
        "periodic, 150 events/s: 65.3 % of what the links carry",
        "512 kB of payload",
        "links carry    229 events/s",
        "10.77.2.1  1         653 Mbit/s  65.3 %       536 kB (409 %)",
        "10.77.1.1 … 10.77.1.8  1-8",
        "10.3 MB",
        "10.77.2.1  469 kB (358 %)  469 kB (358 %)  1.07 ms",
        "10.77.2.1  118 kB             958.7 µs        20.0 µs             100.0 %           2.46 kB",
        "150 events/s  the trigger",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let object = json(Some((&loaded.config, &sums, &GrantPaths::assumed())), Some(&problems));
    assert_eq!(object["admitted"], true);
    assert_eq!(object["event"]["payload_bytes"], 512_000);
    assert_eq!(object["ports"][0]["budget_bytes"], 117_964);
    assert_eq!(object["uplinks"].as_array().map(Vec::len), Some(8));
    assert_eq!(object["planning"][0]["outstanding_bytes"], 117_964);
    assert_eq!(object["planning"][0]["grant_paths"].as_array().map(Vec::len), Some(3));
    assert_eq!(object["limited_by"], "the trigger");
}

#[test]
fn a_path_that_cannot_fill_the_port_is_told_with_what_would() {
    let of = |text_of: &str| {
        let loaded = read(text_of, "test.toml").expect("valid");
        let (sums, _) = admission::admit(&loaded, None);
        let planning = planning(&loaded.config, &sums, &GrantPaths::assumed());
        head(&loaded.config, &sums, &planning)
    };
    let page = of(&INCAST.replace("1 Gbit/s", "10 Gbit/s"));
    // In 200 µs, the link carries 246.1 kB in buffer bytes, which is three quarters of 328.1 kB.
    for part in [
        "10.77.2.1: if data come 200.0 µs after a builder's request (grant), the budget of bytes under way fills 39.9 %",
        "a port buffer of 328 kB",
        "79.9 µs",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    assert!(!of(INCAST).contains("What would fill it"), "a budget fills 1 Gbit/s for paths up to 958 µs");
}

#[test]
fn every_mode_has_its_page() {
    for mode in ["credit", "window", "token-bucket", "none"] {
        let given = format!("{INCAST}[shaping]\nmode = \"{mode}\"\n");
        let loaded = read(&given, "test.toml").expect("valid");
        let (sums, _) = admission::admit(&loaded, None);
        assert!(whole(&loaded, &sums).contains(&format!("shaping        {mode}")));
    }
}

#[test]
fn json_lists_the_problems() {
    let problems = read("[run]\nevents = 0\n", "test.toml").expect_err("invalid");
    let object = json(None, Some(&problems));
    assert_eq!(object["admitted"], false);
    let list = object["problems"].as_array().expect("a list");
    let event = list.iter().find(|problem| problem["key"] == "run.events").expect("is named");
    assert_eq!((&event["line"], &event["severity"]), (&2.into(), &"error".into()));
}

#[test]
fn only_what_may_start_is_admitted() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), INCAST).expect("written");
    assert!(admit(file.path(), None).is_ok());
    std::fs::write(file.path(), INCAST.replace("150 Hz", "300 Hz")).expect("written");
    let refused = admit(file.path(), None).expect_err("too much").to_string();
    assert!(refused.contains("ask for at most 229 events/s"), "{refused}");
}

/// A system as large as a run can be: its sums take seconds at most, and its page fits a screen.
#[test]
fn thousands_of_sources_fit_on_one_screen() {
    let text_of = "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.77.3.1:7000\"\n\
        trigger = \"as-fast-as-possible\"\n[network]\nlink_rate = \"10 Gbit/s\"\nport_buffer = \"4 MiB\"\n\
        [[network.trunk]]\nname = \"core\"\nrate = \"400 Gbit/s\"\nbuffer = \"64 MiB\"\nmembers = [\"builders 1-1024\"]\n\
        [[source]]\nids = \"1-4096\"\nhost = \"source{id}\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
        [[builder]]\nids = \"1-1024\"\nlisten = \"builder{id}:7101\"\nsink = \"null\"\n";
    let began = std::time::Instant::now();
    let loaded = read(text_of, "test.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let (sums, problems) = admission::admit(&loaded, None);
    let page = whole(&loaded, &sums);
    assert!(!problems.are_fatal(), "{problems}");
    assert!(page.lines().count() <= 60, "{page}");
    for part in ["builders 1-1024", "builder1 … builder1024", "source1 … source4096  1-4096"] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    // A sum over all pairs of roles takes minutes in a test build.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
