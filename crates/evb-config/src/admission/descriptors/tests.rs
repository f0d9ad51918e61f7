use evb_core::id::{BuilderId, Peer, SourceId};

use crate::{
    Loaded,
    admission::{Machine, admit, descriptors, too_few_descriptors},
    read,
};

fn system(host: &str, network: &str) -> Loaded {
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"{host}1:7000\"\ntrigger = \"as-fast-as-possible\"\n{network}\
         [[source]]\nids = \"1-100\"\nbind = \"{host}2\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
         [[builder]]\nids = \"1-10\"\nlisten = \"{host}3:{{7100+id}}\"\nsink = {{ kind = \"file\", path = \"out\" }}\n"
    );
    read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn each_host_has_its_sum() {
    let (sums, problems) = admit(&system("10.0.0.", ""), Machine { memory: None, descriptors: Some(1000) });
    let sums: Vec<_> = sums
        .descriptors
        .iter()
        .map(|sum| (sum.host.as_deref().expect("named"), sum.lanes, sum.control, sum.files))
        .collect();
    let expected = [("10.0.0.1", 0, 110 + 64, 0), ("10.0.0.3", 1000, 80, 40), ("10.0.0.2", 1000, 800, 0)];
    assert_eq!(sums, expected);
    let shown = problems.to_string();
    assert!(!problems.are_fatal() && shown.contains("10.0.0.2 needs 1832 file descriptors"), "{shown}");
    assert!(shown.contains("the limit of 10.0.0.2 is unknown here"), "{shown}");
}

#[test]
fn too_few_on_this_host_are_refused() {
    let loaded = system("127.0.0.", "");
    // The supervisor has 174, the sources 1800, the builders 1120, and the process 32.
    let of = |limit| admit(&loaded, Machine { memory: None, descriptors: Some(limit) }).1;
    assert!(of(3126).is_empty(), "{}", of(3126));
    let problems = of(3125);
    let shown = problems.to_string();
    for part in [
        "the roles that run here need 3126 file descriptors (2000 for event data",
        "may open 3125",
        "LimitNOFILE",
        "test.toml:10:",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    // Several processes could host the roles, of which the supervisor needs the most.
    assert!(!problems.are_fatal() && !of(174 + 32).are_fatal() && of(174 + 31).are_fatal());
    // A process with some of the roles needs less, and a run of it is not refused.
    let some = [Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1))];
    assert_eq!(descriptors(&loaded.config, &some).needed(), 32 + 8 + 10 + 8 + 100 + 4);
    assert!(too_few_descriptors(&loaded.config, &loaded.origin, &some, 162).is_empty());
    assert!(too_few_descriptors(&loaded.config, &loaded.origin, &some, 161).are_fatal());
}
