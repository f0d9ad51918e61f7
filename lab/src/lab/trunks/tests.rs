use lab_base::network::PortCount;
use serde_json::json;

use super::*;

fn outcome(transport: Transport) -> Outcome {
    let summary = json!({ "rates": { "payload_bytes_per_s": 50e6 } });
    let mut outcome = Outcome::of_summary(summary);
    outcome.shape = shape(250_000_000, networks(250_000_000)[0].1);
    outcome.system = System::new(Mode::Credit, FRAGMENT).over(transport);
    outcome
}

#[test]
fn the_comparison_is_of_payload() {
    // 500 Mbit/s in frames of 1514 bytes with 1448 bytes of payload.
    let fits = 500.0 * 1448.0 / 1514.0;
    let share = |transport| beside_iperf(&outcome(transport), 470.0 / fits);
    assert!((share(Transport::Tcp) - 400.0 / 470.0).abs() < 1e-9);
    // A packet over UDP has 1432 bytes with the headers of fragments.
    let over_udp = 400.0 / 470.0 * 1448.0 / 1432.0 * 16_016.0 / 16_000.0;
    assert!((share(Transport::Udp) - over_udp).abs() < 1e-9);
}

#[test]
fn only_trunks_are_described() {
    let mut outcome = outcome(Transport::Tcp);
    let count = PortCount { drops: 3, bytes: 2_500_000 };
    outcome.ports =
        [("b1", count), ("trunk core down", count)].map(|(port, count)| (port.to_owned(), count)).into();
    assert_eq!(busiest(&outcome), "trunk core down 2.5 MB, 3 drops");
}

#[test]
fn the_trunk_binds_in_every_network() {
    for (name, tree) in networks(250_000_000) {
        assert_eq!(shape(250_000_000, tree).carries(), 500e6, "{name}");
    }
}

#[test]
fn the_worst_paths_are_described() {
    let mut outcome = outcome(Transport::Tcp);
    assert_eq!(worst_paths(&outcome), "no path is named on which data were sent again");
    outcome.summary["paths"] = json!([
        { "source": 3, "builder": 1, "tcp_retransmits": 40, "resends": 2 },
        { "source": 1, "builder": 4, "tcp_retransmits": 7, "resends": 0 },
    ]);
    assert_eq!(worst_paths(&outcome), "most was sent again on the paths s3 to b1 42, s1 to b4 7");
}
