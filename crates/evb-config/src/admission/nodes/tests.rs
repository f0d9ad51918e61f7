use evb_core::units::Bytes;

use crate::{
    Loaded, Problems,
    admission::{GrantPaths, Sums, admit, planning},
    read,
};

/// Returns a system of sources with fragments of `size` and builders, each on a host of its own.
fn system(trigger: &str, ends: (u16, u16), size: &str, network: &str) -> Loaded {
    let (sources, builders) = ends;
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = {trigger}\n\
         [[source]]\nids = \"1-{sources}\"\nbind = \"10.0.1.{{id}}\"\ninput = {{ kind = \"generator\", size = \"{size}\" }}\n\
         [[builder]]\nids = \"1-{builders}\"\nlisten = \"10.0.2.{{id}}:7101\"\nsink = \"null\"\n{network}"
    );
    read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

fn of(loaded: &Loaded) -> (Sums, Problems) {
    admit(loaded, None)
}

const FAST: &str = "\"as-fast-as-possible\"";

/// Four sources, and four builders behind one trunk of 155 Mbit/s (Nomachi et al., RCNP and
/// Saclay).
fn rcnp(trigger: &str, trunk: &str) -> Loaded {
    let network = "[network]\nlink_rate = \"155 Mbit/s\"\nport_buffer = \"128 KiB\"\n";
    system(trigger, (4, 4), "256 B", &format!("{network}{trunk}"))
}

const ATM: &str = "[[network.trunk]]\nname = \"atm\"\nrate = \"155 Mbit/s\"\nmembers = [\"builders 1-4\"]\n";

#[test]
fn builders_behind_one_trunk_get_what_it_carries() {
    let loaded = rcnp(FAST, ATM);
    let (sums, problems) = of(&loaded);
    assert!(problems.is_empty(), "{problems}");
    // Fragments of 272 B with headers take 1156 B on the line.
    let expected = 155e6 / 8.0 / 1156.0;
    assert!((sums.carried.expect("known") - expected).abs() < 0.01, "{:?}", sums.carried);
    let planning = planning(&loaded.config, &sums, &GrantPaths::assumed());
    assert_eq!(planning.bounds[0].resource, "the trunk `atm`");
    assert_eq!(planning.bounds[0].events_per_s.floor(), 16_760.0);
    let apart = of(&rcnp(FAST, "")).0.carried.expect("known");
    assert_eq!(apart.floor(), 67_041.0);
}

#[test]
fn a_load_above_a_trunks_rate_is_refused_with_its_name() {
    let rate = |rate: &str| format!("{{ kind = \"periodic\", rate = \"{rate}\" }}");
    let (_, problems) = of(&rcnp(&rate("17 kHz"), ATM));
    let shown = problems.to_string();
    for part in [
        "17000 events/s put 157.216 Mbit/s on trunk `atm` (down from 4 sources to 4 builders), but it carries only 155 Mbit/s",
        "at most 16760 events/s",
        "supervisor.trigger.rate",
        "--> test.toml:5:",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    assert!(problems.are_fatal());
    assert!(!of(&rcnp(&rate("16760 Hz"), ATM)).1.are_fatal());
}

#[test]
fn only_what_crosses_a_trunk_loads_it() {
    // Sources 1 to 4 and builders 1 and 2 are behind the trunk.
    let trunk = "[network]\nlink_rate = \"1 Gbit/s\"\n[[network.trunk]]\nname = \"left\"\nrate = \"1 Gbit/s\"\n\
        members = [\"sources 1-4\", \"builders 1, 2\"]\n";
    let (sums, _) = of(&system("{ kind = \"periodic\", rate = \"100 Hz\" }", (6, 8), "1432 B", trunk));
    // Each fragment takes 1448 lane bytes, thus 1538 line bytes.
    let queues: Vec<_> = sums.nodes[0]
        .queues
        .iter()
        .map(|queue| {
            (queue.direction.word(), queue.sources, queue.builders, queue.load.map(|l| l.bits_per_second()))
        })
        .collect();
    let bits = |fragments: u64, of_eight: u64| Some(fragments * 1538 * 8 * 100 * of_eight / 8);
    assert_eq!(queues, [("up", 4, 6, bits(4, 6)), ("down", 2, 2, bits(2, 2))]);
}

/// Two switches with ports of 250 Mbit/s and 64 KiB, and a trunk of 500 Mbit/s and 128 KiB.
const TWO_SWITCHES: &str = "[network]\nlink_rate = \"250 Mbit/s\"\nport_buffer = \"64 KiB\"\n[[network.trunk]]\n\
    name = \"core\"\nrate = \"500 Mbit/s\"\nbuffer = \"128 KiB\"\nmembers = [\"builders 1-4\"]\n";

#[test]
fn what_is_under_way_fits_into_each_buffer() {
    let loaded = system(FAST, (8, 4), "8 kB", TWO_SWITCHES);
    let (sums, problems) = of(&loaded);
    assert!(problems.is_empty(), "{problems}");
    let queue = &sums.nodes[0].queues[0];
    let held: Bytes = loaded.config.builders.iter().map(|builder| builder.budget).sum();
    assert_eq!((queue.budget, queue.capacity), (Some(held), Some(Bytes::new(117_964))));
    assert!(held > Bytes::new(117_960), "{held}");
    assert!(loaded.config.builders.iter().all(|builder| builder.groups.is_empty()));
    assert_eq!(sums.ports[0].budget, Bytes::new(29_491));
}

#[test]
fn sources_behind_two_trunks_have_limits_of_their_own() {
    let trunk = |name: &str, members: &str| {
        format!(
            "[[network.trunk]]\nname = \"{name}\"\nrate = \"1 Gbit/s\"\nbuffer = \"64 KiB\"\nmembers = [\"{members}\"]\n"
        )
    };
    let network = "[network]\nlink_rate = \"500 Mbit/s\"\nport_buffer = \"64 KiB\"\n".to_owned()
        + &trunk("a", "sources 1-4")
        + &trunk("b", "sources 5-6");
    let loaded = system(FAST, (6, 3), "8 kB", &network);
    for builder in &loaded.config.builders {
        let groups: Vec<_> =
            builder.groups.iter().map(|group| (group.lanes.len(), group.limit.count())).collect();
        // A third of nine tenths of 64 KiB.
        assert_eq!((builder.budget, groups), (Bytes::new(58_982), vec![(4, 19_660), (2, 19_660)]));
    }
    let (sums, problems) = of(&loaded);
    assert!(problems.is_empty(), "{problems}");
    for node in &sums.nodes {
        assert_eq!(node.queues[0].budget, Some(Bytes::new(3 * 19_660)));
    }
}

#[test]
fn windows_paces_and_bursts_fit_into_trunks() {
    let of =
        |shaping: &str| of(&system(FAST, (8, 4), "8 kB", &format!("{TWO_SWITCHES}[shaping]\n{shaping}"))).1;
    for mode in ["window", "token-bucket"] {
        let problems = of(&format!("mode = \"{mode}\"\n"));
        assert!(problems.is_empty(), "{problems}");
    }
    // Eight windows of 5 kB fit into a port, but not 32 of them into the trunk.
    let problems = of("mode = \"window\"\nwindow = \"5 kB\"\n").to_string();
    assert!(
        problems.contains("32 lanes (source to builder) with a window of 5 kB")
            && problems.contains("trunk `core`"),
        "{problems}"
    );
    // A source sends at 80 Mbit/s, and a port receives 160 Mbit/s.
    let problems = of("mode = \"token-bucket\"\nrate = \"20 Mbit/s\"\n").to_string();
    assert!(problems.contains("add up to 640 Mbit/s on trunk `core`"), "{problems}");
    let problems = of("mode = \"token-bucket\"\nburst = \"5 kB\"\n").to_string();
    assert!(problems.contains("the bursts of 32 lanes") && problems.contains("trunk `core`"), "{problems}");
}

#[test]
fn a_link_may_be_slower_than_the_others() {
    let network = "[network]\nlink_rate = \"1 Gbit/s\"\n[[source]]\nid = 9\nbind = \"10.0.1.9\"\n\
        link_rate = \"100 Mbit/s\"\ninput = { kind = \"generator\", size = \"1432 B\" }\n";
    let (sums, _) = of(&system(FAST, (2, 8), "1432 B", network));
    assert!((sums.carried.expect("known") - 100e6 / 8.0 / 1538.0).abs() < 1e-6);
}
