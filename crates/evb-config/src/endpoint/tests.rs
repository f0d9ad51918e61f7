use super::{Endpoint, EndpointError, is_host, is_loopback};

#[test]
fn reads_names_and_both_kinds_of_address() {
    for text in ["127.0.0.1:7000", "daq-01.lab:7000", "[::1]:7000", "[fe80::1%eth0]:7000", "localhost:0"] {
        assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()).as_deref(), Ok(text));
    }
}

#[test]
fn refuses_the_rest() {
    let cases = [
        ("127.0.0.1", EndpointError::NoPort),
        ("::1", EndpointError::NoBrackets),
        ("fe80::1%eth0:7000", EndpointError::NoBrackets),
        ("host:port", EndpointError::BadPort),
        ("host:+80", EndpointError::BadPort),
        ("host:70000", EndpointError::BadPort),
        ("host:", EndpointError::BadPort),
        (":7000", EndpointError::BadHost),
        ("two words:7000", EndpointError::BadHost),
        ("[name]extra:1", EndpointError::BadHost),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<Endpoint>(), Err(error), "{text}");
    }
}

#[test]
fn knows_what_stays_on_this_machine() {
    assert!(is_loopback("127.3.2.1") && is_loopback("::1") && is_loopback("localhost"));
    assert!(!is_loopback("10.0.0.1") && !is_loopback("::") && !is_loopback("localhost.example.org"));
    assert!(is_host("::1") && !is_host("1:2") && !is_host(""));
}
