use evb_core::{
    id::{BuilderId, Peer as Role, SourceId},
    units::Rate,
};

use super::copies;

/// Returns the rate of copies in Mbit/s for the roles of a host.
fn copied(here: &[Role], link_rate: &str) -> Option<u64> {
    let text = format!(
        r#"
        [supervisor]
        listen = "10.0.0.1:7000"
        trigger = {{ kind = "periodic", rate = "1 kHz" }}
        [network]
        {link_rate}
        [security]
        mode = "none"
        [[source]]
        id = 1
        bind = "10.0.0.2"
        input = {{ kind = "generator", size = "1 kB" }}
        [[source]]
        id = 2
        bind = "10.0.0.2"
        input = {{ kind = "generator", size = "1 kB" }}
        [[source]]
        id = 3
        bind = "10.0.0.3"
        link_rate = "400 Mbit/s"
        input = {{ kind = "generator", size = "1 kB" }}
        [[builder]]
        id = 1
        listen = "10.0.0.2:7101"
        sink = {{ kind = "null" }}
        [[builder]]
        id = 2
        listen = "10.0.0.4:7101"
        sink = {{ kind = "file", path = "events" }}
        "#
    );
    let config = evb_config::read(&text, "test").expect("a configuration").config;
    copies(&config, here).map(|rate: Rate| rate.bits_per_second() / 1_000_000)
}

#[test]
fn sources_copy_once_and_writing_builders_twice() {
    let source = |id| Role::Source(SourceId::new(id));
    let builder = |id| Role::Builder(BuilderId::new(id));
    let gigabit = "link_rate = \"1 Gbit/s\"";
    assert_eq!(copied(&[source(1)], gigabit), Some(1000));
    assert_eq!(copied(&[source(1), source(2)], gigabit), Some(1000), "they share a link");
    assert_eq!(copied(&[source(1), source(3)], gigabit), Some(1400));
    assert_eq!(copied(&[source(1), builder(1)], gigabit), Some(2000), "a link has two directions");
    assert_eq!(copied(&[builder(2)], gigabit), Some(2000));
    assert_eq!(copied(&[], gigabit), None);
    assert_eq!(copied(&[source(1)], ""), None);
}
