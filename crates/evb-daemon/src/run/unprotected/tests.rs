use std::path::PathBuf;

use evb_config::{Config, SecurityMode, read};

use super::warnings;

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
    let said = warnings(&config);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("triggers") && said[0].contains("10.0.0.1:7001"), "{said:?}");
    assert!(said[1].contains("source 7") && said[1].contains("10.0.0.2:7200"), "{said:?}");
    assert!(config.cost().record_header().count() > 16, "tags are counted");

    let config = good(&format!("[security]\nmode = \"none\"\n{ELSEWHERE}"));
    let said = warnings(&config);
    assert!(said.len() == 3 && said[0].contains("evbd keygen"), "{said:?}");
    let here = ELSEWHERE.replace("10.0.0.", "127.0.0.");
    assert!(warnings(&good(&here)).is_empty());
    let trusting = format!("[security]\nmode = \"none\"\n{here}");
    assert!(warnings(&good(&trusting)).is_empty(), "nothing listens elsewhere");
}
