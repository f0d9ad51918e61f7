use super::evbd::{Settings, Sites, configuration, report};
use super::statistics::{median, rows, table};
use super::*;
use crate::children::Usage;

fn run(program: &str, size: usize, events_per_s: f64) -> Report {
    Report {
        program: program.to_owned(),
        sources: 4,
        builders: 4,
        size,
        seconds: 3.0,
        events_per_s,
        events_per_s_overall: events_per_s,
        payload_bytes_per_s: events_per_s * 4.0 * size as f64,
        complete: 1,
        incomplete: 0,
        peak_rss_bytes_max: 1,
        cpu_seconds: 1.0,
        drops: None,
        max_open_events: None,
        latency_us: None,
    }
}

#[test]
fn medians() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    assert!(median(Vec::new()).is_nan());
}

#[test]
fn ratios_are_of_medians_and_of_the_same_workload() {
    let workloads = [1000, 2000].map(|size| Workload { sources: 4, builders: 4, size });
    let mut runs: Vec<Report> = [90.0, 80.0, 10.0].map(|rate| run("evb", 1000, rate)).into();
    runs.extend([100.0, 100.0, 900.0].map(|rate| run("plain", 1000, rate)));
    runs.extend([40.0, 30.0, 50.0].map(|rate| run("zeromq", 1000, rate)));
    runs.push(run("plain", 2000, 7.0));
    let rows = rows(&workloads, &runs);
    assert_eq!((rows[0].evb_to_plain, rows[0].evb_to_zeromq), (Some(0.8), Some(2.0)));
    assert_eq!((rows[1].evb_to_plain, rows[1].evb_to_zeromq), (None, None));
    assert_eq!(rows[0].programs[1].events_per_s_max, 900.0);
    assert_eq!(table(&rows).lines().count(), 1 + 3 + 1);
}

#[test]
fn processor_time_is_per_gb_of_all_events() {
    let workload = Workload { sources: 4, builders: 4, size: 1000 };
    // 250 000 events of 4 kB are 1 GB.
    let mut run = run("evb", 1000, 1.0);
    (run.complete, run.incomplete, run.cpu_seconds) = (200_000, 50_000, 0.75);
    let summary = &rows(&[workload], &[run])[0].programs[0];
    assert_eq!((summary.cpu_s_per_gb, summary.cpu_s_per_million_events), (0.75, 3.0));
}

#[test]
fn streams_count_as_the_events_of_their_bytes() {
    let workload = Workload { sources: 4, builders: 2, size: 1000 };
    let report = iperf3::report(workload, 8e6, 2.0, Usage::default());
    assert_eq!((report.events_per_s_overall, report.complete), (1000.0, 2000));
}

#[test]
fn workloads_are_read() {
    let workload = Workload { sources: 4, builders: 2, size: 1000 };
    assert_eq!("4x2x1000".parse::<Workload>().expect("well written"), workload);
    for bad in ["4x2", "4x2x", "axbxc", "4x2x1000x1"] {
        assert!(bad.parse::<Workload>().is_err(), "{bad}");
    }
}

fn loopback(ports: &[u16]) -> Sites {
    Sites { place: Place::Loopback, ports: ports.to_vec() }
}

#[test]
fn the_configuration_names_every_role_and_setting() {
    let lines = ["shaping: budget = \"8 MB\"".to_owned(), "builder: port = \"p\"".to_owned()];
    let workload = Workload { sources: 2, builders: 2, size: 1000 };
    let text = configuration(
        workload,
        0.5,
        Settings { slots: Some(7), rate: Some(50.0), lines: &lines },
        &loopback(&[7000, 7101, 7102]),
    );
    let text = text.expect("good settings");
    for due in [
        "duration = \"500 ms\"",
        "rate = \"50 Hz\"",
        "slots = 7",
        "size = \"1000 B\"",
        "budget = \"8 MB\"",
        "127.0.0.1:7102",
    ] {
        assert!(text.contains(due), "{due} in\n{text}");
    }
    assert_eq!(text.matches("[[source]]").count(), 2);
    assert_eq!(text.matches("port = \"p\"").count(), 2);
    let wrong = ["shape: x = 1".to_owned()];
    assert!(
        configuration(
            workload,
            1.0,
            Settings { slots: Some(1), rate: None, lines: &wrong },
            &loopback(&[1, 2, 3])
        )
        .is_err()
    );
}

#[test]
fn in_the_lab_every_role_has_the_address_of_its_host() {
    let workload = Workload { sources: 2, builders: 2, size: 1000 };
    let sites = Sites { place: Place::Lab, ports: vec![7000; 3] };
    let text = configuration(workload, 1.0, Settings { slots: None, rate: None, lines: &[] }, &sites)
        .expect("good settings");
    for due in [
        "listen = \"10.77.3.1:7000\"",
        "bind = \"10.77.1.1\"",
        "bind = \"10.77.1.2\"",
        "listen = \"10.77.2.1:7000\"",
        "listen = \"10.77.2.2:7000\"",
        "[security]\nmode = \"none\"",
    ] {
        assert!(text.contains(due), "{due} in\n{text}");
    }
    assert!(!text.contains("127.0.0.1"), "{text}");
}

fn comparison(arguments: &str) -> Comparison {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        comparison: Comparison,
    }
    let words = arguments.split(' ').map(|word| word.replace('_', " "));
    <Command as clap::Parser>::parse_from(words).comparison
}

#[test]
fn a_stated_port_goes_to_the_network_before_other_settings() {
    let given = comparison("compare --link-rate 10_Gbit/s --port-buffer 128_KiB --set shaping:_budget_=_1");
    let lines =
        ["network: link_rate = \"10 Gbit/s\"", "network: port_buffer = \"128 KiB\"", "shaping: budget = 1"];
    assert_eq!(given.lines(), lines);
}

#[test]
fn evbd_is_not_run_in_the_lab_without_a_stated_port() {
    let error = comparison("compare --netns --evbd evbd").check(&[]).expect_err("no port");
    assert!(error.to_string().contains("--port-buffer"), "{error:#}");
    assert!(comparison("compare --evbd evbd").check(&[]).is_ok());
    assert!(comparison("compare --repeats 0").check(&[]).is_err());
}

#[test]
fn drops_are_added_up_and_shown_where_there_are_ports() {
    let workloads = [Workload { sources: 4, builders: 4, size: 1000 }];
    let with = |drops| Report { drops, ..run("zeromq", 1000, 5.0) };
    let both = rows(&workloads, &[with(Some(3)), with(Some(4))]);
    assert_eq!(both[0].programs[0].drops, Some(7));
    assert_eq!(table(&both).split_whitespace().last(), Some("7"));
    assert_eq!(rows(&workloads, &[with(None)])[0].programs[0].drops, None);
}

#[test]
fn a_summary_without_its_rates_is_an_error() {
    let workload = Workload { sources: 2, builders: 2, size: 1000 };
    let mut summary = serde_json::json!({
        "duration_s": 3.0,
        "events": { "complete": 30, "incomplete": 1, "lost": 2 },
        "rates": { "events_per_s": 10.0, "payload_bytes_per_s": 20_000.0 },
    });
    let good = report(&summary, workload, Usage::default()).expect("all is there");
    assert_eq!((good.complete, good.incomplete, good.events_per_s), (30, 3, 10.0));
    summary["rates"] = serde_json::json!({});
    assert!(report(&summary, workload, Usage::default()).is_err());
}
