use super::*;

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
