use super::{
    line::{LineCount, counted},
    *,
};

#[test]
fn what_a_line_counts_is_both_ways() {
    let said = r#"[{"kind":"netem","dev":"near","packets":10,"drops":1},{"kind":"noqueue","dev":"br0"},
        {"kind":"netem","dev":"far","packets":20,"drops":3}]"#;
    let count = counted(said).unwrap();
    assert_eq!(count, LineCount { packets: 30, lost: 4 });
    assert_eq!(count.since(LineCount { packets: 10, lost: 4 }), LineCount { packets: 20, lost: 0 });
    assert!(counted(r#"[{"kind":"netem","dev":"near"}]"#).is_err());
}

#[test]
fn a_long_line_holds_its_budget_and_the_port_before_it_all_of_it() {
    let long = CASES.iter().find(|case| case.is_long).unwrap();
    let in_flight = RATE as f64 / 8.0 * 0.198;
    assert!(in_flight < LONG_BUDGET as f64 && LONG_BUDGET < shape(true).port_buffer);
    let config = system(long, Transport::Udp).config(shape(true), 1.0).unwrap();
    assert!(config.contains("budget") && !config.contains("port_buffer"), "{config}");
}

#[test]
fn every_kind_of_harm_is_in_the_short_version() {
    for harm in ["loss", "duplicate", "reorder", "delay", "corrupt"] {
        assert!(CASES.iter().any(|case| case.in_short && case.line.contains(harm)), "{harm}");
    }
}
