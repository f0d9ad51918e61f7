use super::*;

#[test]
fn the_end_of_a_flow_is_an_address_a_port_or_both() {
    let ip = |text: &str| Some(text.parse().unwrap());
    for (text, expected, shown) in [
        ("192.168.10.16", (ip("192.168.10.16"), None), "192.168.10.16"),
        ("192.168.10.16:24", (ip("192.168.10.16"), Some(24)), "192.168.10.16:24"),
        ("::1", (ip("::1"), None), "::1"),
        ("[::1]", (ip("::1"), None), "::1"),
        ("[::1]:24", (ip("::1"), Some(24)), "[::1]:24"),
        ("24", (None, Some(24)), "port 24"),
        (":24", (None, Some(24)), "port 24"),
    ] {
        let end: FlowEnd = text.parse().unwrap();
        assert_eq!(((end.ip, end.port), end.to_string().as_str()), (expected, shown), "{text}");
    }
    for text in ["", "daq0", "daq0:24", "65536", "192.168.10.16:", "192.168.10", "::1:x", "[::1"] {
        assert_eq!(text.parse::<FlowEnd>(), Err(FlowEndError), "{text}");
    }
}

#[test]
fn a_filter_takes_one_direction() {
    let [board, other, client]: [SocketAddr; 3] =
        ["10.0.0.1:24", "10.0.0.1:25", "10.0.0.2:5000"].map(|text| text.parse().unwrap());
    let by_port = FlowFilter { from: "24".parse().unwrap(), ..FlowFilter::default() };
    assert!(by_port.takes(board, client) && !by_port.takes(other, client) && !by_port.takes(client, board));
    let by_host = FlowFilter { to: "10.0.0.2".parse().unwrap(), ..FlowFilter::default() };
    assert!(by_host.takes(other, client) && !by_host.takes(client, board));
    assert!(by_host.may_take(other.ip(), client.ip()) && !by_host.may_take(client.ip(), board.ip()));
    assert!(FlowFilter::default().takes(board, client));
}
