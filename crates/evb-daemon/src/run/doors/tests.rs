use std::path::PathBuf;

use evb_config::{Config, SecurityMode, read};

use super::open_doors;

const ELSEWHERE: &str = "[supervisor]\nlisten = \"10.0.0.1:7000\"\n\
                         trigger = { kind = \"external\", listen = \"10.0.0.1:7001\" }\n\
                         [[source]]\nid = 7\nmax_fragment = \"1 kB\"\ninput = { kind = \"tcp\", listen = \"10.0.0.2:7200\" }\n\
                         [[builder]]\nid = 1\nlisten = \"10.0.0.3:7101\"\nsink = \"null\"\n";

fn good(text: &str) -> Config {
    read(text, "test.toml").unwrap().config
}

#[test]
fn a_key_opens_the_network_and_what_no_key_protects_is_named() {
    let config = good(&format!("[security]\nmode = \"psk\"\nkey_file = \"/etc/evb/key\"\n{ELSEWHERE}"));
    assert_eq!(config.security, SecurityMode::Psk { key_file: PathBuf::from("/etc/evb/key") });
    let doors = open_doors(&config);
    assert_eq!(doors.len(), 2, "{doors:?}");
    assert!(doors[0].contains("triggers") && doors[0].contains("10.0.0.1:7001"), "{doors:?}");
    assert!(doors[1].contains("source 7") && doors[1].contains("10.0.0.2:7200"), "{doors:?}");
    assert!(config.cost().record_header().count() > 16, "tags are counted");

    let config = good(&format!("[security]\nmode = \"none\"\n{ELSEWHERE}"));
    let doors = open_doors(&config);
    assert!(doors.len() == 3 && doors[0].contains("evbd keygen"), "{doors:?}");
    let here = ELSEWHERE.replace("10.0.0.", "127.0.0.");
    assert!(open_doors(&good(&here)).is_empty());
    let trusting = format!("[security]\nmode = \"none\"\n{here}");
    assert!(open_doors(&good(&trusting)).is_empty(), "nothing listens elsewhere");
}
