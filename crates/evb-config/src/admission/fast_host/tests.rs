use std::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::{
    admission::{FastHost, GrantPaths, Machine, planning, sums},
    read,
};

fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_second(mbit * 1_000_000)
}

/// Returns the sums of the first port at a round trip of 198 ms.
fn of(network: &str, source: &str) -> Option<FastHost> {
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = \"as-fast-as-possible\"\n\
         [network]\nlink_rate = \"100 Mbit/s\"\nport_buffer = \"4 MiB\"\n{network}\n\
         [[source]]\nids = \"1-2\"\nhost = \"far{{id}}\"\n{source}\ninput = {{ kind = \"generator\", size = \"64 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"near:7101\"\nsink = \"null\"\n"
    );
    let config = read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}")).config;
    let paths = GrantPaths::stated(&[Duration::from_millis(198)]);
    planning(&config, &sums(&config, Machine::default()), &paths).ports[0].fast_host.clone()
}

#[test]
fn a_gigabit_host_before_100_megabit_is_busy_for_a_tenth() {
    let found = of("", "link_rate = \"1 Gbit/s\"").expect("the rates differ");
    assert_eq!((found.host_rate, found.network_rate), (mbit(1000), mbit(100)));
    assert_eq!(found.busy, [Duration::from_micros(19_800)]);
    assert_eq!(found.buffer, [Bytes::new(2_227_500)]);
    assert_eq!(of("", ""), None);
    let slow = of("", "link_rate = \"10 Mbit/s\"").expect("the rates differ");
    assert_eq!((slow.busy[0], slow.buffer[0]), (Duration::from_millis(198), Bytes::ZERO));
}

#[test]
fn a_trunk_on_the_way_counts_and_a_trunk_above_both_does_not() {
    let trunk = |members: &str| {
        format!(
            "[[network.trunk]]\nname = \"ocean\"\nrate = \"50 Mbit/s\"\nbuffer = \"1 MiB\"\nmembers = [{members}]\n"
        )
    };
    let found = of(&trunk("\"sources 1-2\""), "").expect("the trunk is slower");
    assert_eq!((found.host_rate, found.network_rate), (mbit(100), mbit(50)));
    assert_eq!(found.busy, [Duration::from_millis(99)]);
    assert_eq!(found.buffer, [Bytes::new(50_000_000 / 8 * 99 / 1000)]);
    assert_eq!(of(&trunk("\"sources 1-2\", \"builder 1\""), ""), None);
}
