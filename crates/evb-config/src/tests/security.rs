use super::bad;

const ELSEWHERE: &str = "[supervisor]\nlisten = \"10.0.0.1:7000\"\n\
                         trigger = { kind = \"external\", listen = \"10.0.0.1:7001\" }\n\
                         [[source]]\nid = 7\nmax_fragment = \"1 kB\"\ninput = { kind = \"tcp\", listen = \"10.0.0.2:7200\" }\n\
                         [[builder]]\nid = 1\nlisten = \"10.0.0.3:7101\"\nsink = \"null\"\n";

#[test]
fn every_listener_stays_on_this_machine_without_the_section() {
    let problems = bad(ELSEWHERE).to_string();
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        let said = format!("`{address}` is not a loopback address");
        assert!(problems.contains(&said), "{address}:\n{problems}");
    }
    assert_eq!(problems.matches("is not a loopback address").count(), 4, "{problems}");
    assert!(problems.contains("mode = \"psk\"") || problems.contains("mode = \"none\""), "{problems}");
}
