use evb_core::{
    id::{BuilderId, Peer as Role, SourceId},
    units::{Bytes, Rate},
};

use super::{copies, demand};

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

#[test]
fn the_largest_buffer_for_datagrams_of_a_host_is_demanded() {
    let source = |id: u16, size: &str| {
        format!(
            "[[source]]\nid = {id}\ncounter = {{ bits = 32 }}\ninput = {{ kind = \"udp\", listen = \"127.0.0.1:46{id}\", \
             receive_buffer = \"{size}\", frame = {{ header = 4, counter = {{ at = 0, bytes = 4 }} }} }}\n"
        )
    };
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"periodic\", rate = \"1 kHz\" }}\n\
         [network]\nreceive_buffer = \"4 MiB\"\n{}{}\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"null\" }}\n",
        source(1, "2 MiB"),
        source(2, "32 MiB")
    );
    let config = evb_config::read(&text, "test").expect("a configuration").config;
    let of = |ids: &[u16]| {
        let here: Vec<Role> = ids.iter().map(|id| Role::Source(SourceId::new(*id))).collect();
        demand(&config, &here).receive_buffer
    };
    assert_eq!(of(&[1]), Some(Bytes::mib(4)));
    assert_eq!(of(&[1, 2]), Some(Bytes::mib(32)));
}
