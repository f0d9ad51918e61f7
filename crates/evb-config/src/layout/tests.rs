use evb_core::index::{BuilderIndex, SourceIndex};
use evb_shaper::topology::Direction;

use crate::{Layout, NodeKind, read, tests::bad};

/// Eight sources and four builders, each with an address of its own.
const ENDS: &str = "[security]\nmode = \"none\"\n\
    [[source]]\nids = \"1-8\"\nbind = \"10.0.1.{id}\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
    [[builder]]\nids = \"1-4\"\nlisten = \"10.0.2.{id}:7101\"\nsink = \"null\"\n";

fn trunk(name: &str, members: &str) -> String {
    format!(
        "[[network.trunk]]\nname = \"{name}\"\nrate = \"1 Gbit/s\"\nbuffer = \"256 KiB\"\nmembers = [{members}]\n"
    )
}

fn layout(trunks: &str) -> Layout {
    crate::tests::good(&format!("{ENDS}{trunks}")).layout()
}

/// Returns the trunks on the way of a lane, with an arrow for the direction.
fn way(layout: &Layout, source: usize, builder: usize) -> String {
    let path = layout.topology.path(SourceIndex::new(source), BuilderIndex::new(builder));
    let mut words = Vec::new();
    for queue in path {
        if let NodeKind::Trunk(_) = layout.kind(queue.node) {
            let arrow = if queue.direction == Direction::Up { "^" } else { "v" };
            words.push(format!("{arrow}{}", layout.topology.nodes()[queue.node.get()].name));
        }
    }
    words.join(" ")
}

#[test]
fn members_are_hosts_addresses_ports_roles_and_trunks() {
    let trunks = trunk("left", "\"sources 1-3\", \"10.0.1.4\", \"builder 1\"")
        + &trunk("hall", "\"left\", \"10.0.2.2\"")
        + &trunk("far", "\"builders 3, 4\"");
    let layout = layout(&trunks);
    assert_eq!(way(&layout, 0, 0), "");
    assert_eq!(way(&layout, 3, 1), "^left");
    assert_eq!(way(&layout, 1, 2), "^left ^hall vfar");
    assert_eq!(way(&layout, 7, 0), "vhall vleft");
    assert_eq!(way(&layout, 7, 3), "vfar");
}

#[test]
fn a_shared_buffer_has_only_ports_behind_it() {
    let ends = "[[source]]\nids = \"1-2\"\nbind = \"127.0.0.{id}\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
        [[builder]]\nids = \"1-2\"\nlisten = \"127.0.0.{id}:7101\"\nsink = \"null\"\n\
        [[network.shared]]\nname = \"asic\"\nbuffer = \"1 MiB\"\nmembers = [\"127.0.0.1\", \"127.0.0.2\"]\n";
    let layout = crate::tests::good(ends).layout();
    assert_eq!(way(&layout, 0, 0), "vasic");
    assert_eq!(way(&layout, 0, 1), "vasic");
}

#[test]
fn sources_are_in_the_order_of_their_ids_as_lanes_are() {
    let ends = ENDS.replace("ids = \"1-8\"", "ids = \"5-8, 1-4\"") + &trunk("left", "\"sources 1-2\"");
    let layout = crate::tests::good(&ends).layout();
    assert_eq!([0, 1, 2].map(|source| way(&layout, source, 0)), ["^left", "^left", ""]);
    assert_eq!(layout.uplinks[0].indexes, [SourceIndex::new(4)]);
}

/// Trunks that are refused, the line of the mistake counted from the first trunk, and words that
/// the message must contain.
#[test]
fn wrong_members_are_refused_with_their_line() {
    let first = ENDS.matches('\n').count();
    let good = trunk("a", "\"10.0.2.1\"");
    let cases: [(String, usize, &[&str]); 11] = [
        (trunk("a", ""), 5, &["trunk without members", "network.trunk.members"]),
        (trunk("a", "\"10.0.2.1\", \"10.0.2.1\""), 5, &["a member of trunk `a` twice"]),
        (trunk("a", "\"10.0.2.1\", \"builder 1\""), 5, &["`builder 1` is a member of trunk `a` twice"]),
        (format!("{good}{}", trunk("b", "\"10.0.2.1\"")), 10, &["is a member of trunk `a` and of trunk `b`"]),
        (
            trunk("a", "\"b\"") + &trunk("b", "\"a\""),
            5,
            &["trunk `a` is a member of itself through trunk `b`"],
        ),
        (trunk("a", "\"a\""), 5, &["trunk `a` is a member of itself"]),
        (trunk("a", "\"10.0.2.11\""), 5, &["`10.0.2.11`, a member", "did you mean `10.0.2.1`?"]),
        (trunk("a", "\"sources 7-9\""), 5, &["`sources 7-9`", "sources 1-4"]),
        (format!("{good}{good}"), 7, &["there is a trunk or shared buffer `a` already"]),
        ("[[network.trunk]]\nname = \"a\"\nmembers = [\"10.0.2.1\"]\n".into(), 1, &["limits nothing"]),
        (
            "[[network.trunk]]\nname = \"a\"\nbuffer = \"4 kB\"\nmembers = [\"builders 1-4\"]\n".into(),
            3,
            &["a builder's part of trunk `a`", "larger buffer", "network.trunk.buffer"],
        ),
    ];
    for (trunks, line, says) in cases {
        let problems = bad(&format!("{ENDS}{trunks}"));
        let lines: Vec<usize> = problems.iter().map(|problem| problems.line_of(problem)).collect();
        assert_eq!(lines, [first + line], "{trunks}{problems}");
        for word in says {
            assert!(problems.to_string().contains(word), "{word:?} is not in\n{problems}");
        }
    }
}

#[test]
fn data_wait_in_the_trunks_on_their_way() {
    let trunks = trunk("hall", "\"left\"") + &trunk("left", "\"source 1\"") + &trunk("far", "\"builder 1\"");
    let delays = layout(&trunks).trunk_delays();
    // 256 KiB at 1 Gbit/s.
    let one = evb_core::units::Bytes::kib(256) / evb_core::units::Rate::from_bits_per_second(1_000_000_000);
    assert_eq!(delays, [one * 3, one * 2, one * 2, one * 2]);
}

#[test]
fn a_link_that_is_partly_behind_a_trunk_is_refused() {
    let ends = "[[source]]\nids = \"1-2\"\nbind = \"127.0.0.1\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
    let problems = bad(&format!("{ends}{}", trunk("a", "\"source 1\"")));
    assert!(
        problems.to_string().contains(
            "only some of the sources that share the link of `127.0.0.1` are members of trunk `a`, and source 2 is not"
        ),
        "{problems}"
    );
}

#[test]
fn a_link_has_one_rate() {
    let source = |id: u16, rate: &str| {
        format!(
            "[[source]]\nid = {id}\nbind = \"127.0.0.1\"\nlink_rate = \"{rate}\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n"
        )
    };
    let both = source(1, "1 Gbit/s") + &source(2, "10 Gbit/s");
    let problems = bad(&both);
    assert!(
        problems.to_string().contains("has two rates: 1 Gbit/s of source 1, and 10 Gbit/s of source 2"),
        "{problems}"
    );
    assert_eq!(problems.line_of(problems.iter().next().expect("one")), 9);
    let text = format!("[network]\nlink_rate = \"2 Gbit/s\"\n{}", source(1, "1 Gbit/s"));
    let layout = crate::tests::good(&text).layout();
    assert_eq!(layout.uplinks[0].rate.map(|rate| rate.to_string()).as_deref(), Some("1 Gbit/s"));
    assert_eq!(layout.ports[0].rate.map(|rate| rate.to_string()).as_deref(), Some("2 Gbit/s"));
    assert!(read(&both, "test.toml").is_err());
}
