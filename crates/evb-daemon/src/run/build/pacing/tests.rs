use std::net::IpAddr;

use super::*;

fn configured(sources: &str) -> Config {
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"periodic\", rate = \"10 Hz\" }}\n\
         [shaping]\nrate = \"15380 kbit/s\"\n{sources}\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n\
         [[builder]]\nid = 2\nlisten = \"127.0.0.1:7102\"\nsink = \"null\"\nrate = \"30760 kbit/s\"\n"
    );
    evb_config::read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}")).config
}

fn found(sources: &str) -> Vec<(IpAddr, Option<u16>, Option<u64>)> {
    let config = configured(sources);
    let trials = trials(&config, &config.sources.iter().collect::<Vec<_>>());
    let key = |trial: &Trial| (trial.from, trial.port, trial.rate.map(Rate::bits_per_second));
    trials.iter().map(key).collect()
}

#[test]
fn sources_of_one_address_share_their_paths() {
    let (first, second) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
    // Of the 1538 bytes that a packet occupies on the line, 1514 are the frame that the kernel
    // paces.
    let paths = |from| [(from, Some(7101), Some(15_140_000)), (from, Some(7102), Some(30_280_000))];
    let shared = "[[source]]\nids = \"1-3\"\nbind = \"127.0.0.2\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
    assert_eq!(found(shared), paths(second));
    let free = "[[source]]\nids = \"4-5\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
    let all = found(&(shared.to_owned() + free));
    if all.len() < 4 {
        return evb_needs::skip(&evb_needs::Missing::new("a system that tells its routes"));
    }
    assert_eq!(all, [paths(second), paths(first)].concat());
}

#[test]
fn polling_is_refused_where_roles_have_no_cores_to_spare() {
    let threads = cores();
    let error = busy_poll(Spin::On, threads).unwrap_err().to_string();
    assert!(
        error.contains("shaping.busy_poll") && error.contains(&format!("for {threads} polling")),
        "{error}"
    );
    assert_eq!(busy_poll(Spin::Force, threads).unwrap(), Some(POLL_TIME));
    assert_eq!(busy_poll(Spin::Off, threads).unwrap(), None);
    // A process with only the supervisor has no sockets to poll.
    assert_eq!(busy_poll(Spin::On, 0).unwrap(), None);
}
