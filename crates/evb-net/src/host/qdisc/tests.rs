use std::time::Duration;

use evb_core::units::{Bytes, Rate};

use super::{
    Place, Qdisc, QdiscOptions,
    options::{Etf, Fq, parse},
};

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

#[test]
fn fq_in_the_kernels_words() {
    let mut bytes = attribute(1, &numbers(&[10_000]));
    bytes.extend(attribute(15, &[1]));
    bytes.extend(attribute(2, &numbers(&[100])));
    bytes.extend(attribute(5, &numbers(&[0])));
    bytes.extend(attribute(14, &numbers(&[10_000_000])));
    let QdiscOptions::Fq(fq) = parse("fq", &bytes) else { panic!("it is fq") };
    let expected = Fq {
        limit: Some(10_000),
        flow_limit: Some(100),
        pacing: Some(false),
        horizon: Some(Duration::from_secs(10)),
        horizon_drop: Some(true),
        ..Fq::default()
    };
    assert_eq!(fq, expected);
    let qdisc = Qdisc {
        kind: "fq".into(),
        handle: 1,
        place: Place::Root,
        options: QdiscOptions::Fq(fq),
        drops: Some(0),
    };
    assert_eq!(qdisc.to_string(), "fq limit 10000p flow_limit 100p horizon 10s nopacing");
}

#[test]
fn etf_in_the_kernels_words() {
    let etf = |flags| parse("etf", &attribute(1, &numbers(&[200_000, 11, flags])));
    let expected = Etf {
        clock: 11,
        delta: Duration::from_micros(200),
        offload: false,
        deadline_mode: false,
        skip_sock_check: false,
    };
    assert_eq!(etf(0), QdiscOptions::Etf(expected));
    assert_eq!(etf(0).to_string(), "clock TAI delta 200µs");
    assert_eq!(etf(7).to_string(), "clock TAI delta 200µs offload deadline_mode skip_sock_check");
}

#[test]
fn tbf_counts_its_depth_in_ticks() {
    let rate = 125_000_000u32; // 1 Gbit/s
    let ticks = 16_384 * 8 / 64; // 16384 B take 131072 ns
    let parameters = numbers(&[0, 0, rate, 0, 0, 0, 131_072, ticks, 0]);
    let options = parse("tbf", &attribute(1, &parameters));
    let expected = QdiscOptions::Tbf {
        rate: Rate::from_bits_per_second(1_000_000_000),
        burst: Bytes::new(16_384),
        limit: Bytes::new(131_072),
    };
    assert_eq!(options, expected);
    let mut wide = attribute(1, &parameters);
    wide.extend(attribute(4, &12_500_000_000u64.to_ne_bytes()));
    let QdiscOptions::Tbf { rate, .. } = parse("tbf", &wide) else { panic!("it is tbf") };
    assert_eq!(rate, Rate::from_bits_per_second(100_000_000_000));
}

#[test]
fn bytes_that_say_nothing_are_not_read() {
    for kind in ["etf", "tbf", "cake"] {
        for bytes in [&[][..], &[1], &[4, 0, 1, 0], &[255, 255, 1, 0, 0], &[0; 64], &[3, 0, 1, 0]] {
            assert_eq!(parse(kind, bytes), QdiscOptions::NotRead, "{kind} of {bytes:?}");
        }
    }
    assert_eq!(parse("fq", &[0; 64]), QdiscOptions::Fq(Fq::default()));
    assert_eq!(parse("pfifo", &numbers(&[1000])).to_string(), "limit 1000");
}
