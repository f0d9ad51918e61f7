use evb_core::id::{BuilderId, Peer, SourceId};

use super::{Hosting, RoleArgument, hosted};

const CONFIG: &str = r#"
[run]
events = 1
[supervisor]
listen = "127.0.0.1:7000"
trigger = { kind = "as-fast-as-possible" }
[[source]]
ids = "1-2"
input = { kind = "generator", size = "1 kB" }
[[builder]]
id = 1
listen = "127.0.0.1:7101"
sink = "null"
"#;

#[test]
fn roles_read_as_people_write_them() {
    assert_eq!("source:3".parse(), Ok(RoleArgument(Peer::Source(SourceId::new(3)))));
    assert_eq!("supervisor".parse(), Ok(RoleArgument(Peer::Supervisor)));
    for wrong in ["", "source", "source:", "builder:x", "supervisor:1", "source:70000"] {
        assert!(wrong.parse::<RoleArgument>().is_err(), "{wrong}");
    }
}

#[test]
fn all_roles_by_default_and_only_known_ones() {
    let loaded = evb_config::read(CONFIG, "test.toml").expect("the configuration is good");
    let hosted = |hosting: Hosting| hosted(&hosting, &loaded.config, &loaded.origin);
    assert_eq!(hosted(Hosting::All).map(|roles| roles.len()).ok(), Some(4));
    let builder = RoleArgument(Peer::Builder(BuilderId::new(1)));
    assert_eq!(hosted(Hosting::Named(vec![builder, builder])).ok(), Some(vec![builder.0]));
    let error = hosted(Hosting::Named(vec![RoleArgument(Peer::Source(SourceId::new(9)))]))
        .expect_err("there is no source 9");
    assert!(error.to_string().contains("source 9"), "{error}");
}

#[test]
fn a_configuration_on_loopback_is_here_as_a_whole() {
    let loaded = evb_config::read(CONFIG, "test.toml").expect("the configuration is good");
    let all = hosted(&Hosting::All, &loaded.config, &loaded.origin).expect("four roles");
    assert_eq!(hosted(&Hosting::Here, &loaded.config, &loaded.origin).ok(), Some(all));
}
