use crate::{
    admission::{self, GrantPaths},
    check::json,
    read,
};

/// Returns the page of a system with these sections, without the trailing blanks of its lines.
fn page(sections: &str) -> String {
    let text_of = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\n\
         trigger = {{ kind = \"periodic\", rate = \"400 Hz\" }}\n{sections}"
    );
    let loaded = read(&text_of, "test.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let (sums, problems) = admission::admit(&loaded, None);
    assert!(!problems.are_fatal(), "{problems}");
    super::super::tests::whole(&loaded, &sums)
}

fn tree(sections: &str) -> String {
    let page = page(sections);
    let start = page.find("\nNetwork\n").expect("a tree");
    page[start + 1..].split("\n\n").next().expect("a part").to_owned()
}

const ENDS: &str = "[[source]]\nids = \"1-8\"\nbind = \"10.0.1.{id}\"\ninput = { kind = \"generator\", size = \"16 kB\" }\n\
    [[builder]]\nids = \"1-4\"\nlisten = \"10.0.2.{id}:7101\"\nsink = \"null\"\n\
    [network]\nlink_rate = \"250 Mbit/s\"\nport_buffer = \"64 KiB\"\n";

#[test]
fn two_switches() {
    let drawn = tree(&format!(
        "{ENDS}[[network.trunk]]\nname = \"core\"\nrate = \"500 Mbit/s\"\nbuffer = \"128 KiB\"\nmembers = [\"builders 1-4\"]\n"
    ));
    let lines = [
        "Network",
        "  node                    lanes go  rate        load                  buffer   under way at most",
        "  the switch at the root",
        "    sources 1-8           up        250 Mbit/s  54.4 Mbit/s (21.8 %)  -        -",
        "    trunk core            down      500 Mbit/s  435 Mbit/s (87.1 %)   128 KiB  118 kB (90 %)      binds",
        "      builders 1-4        down      250 Mbit/s  109 Mbit/s (43.5 %)   64 KiB   29.5 kB (45 %)",
    ];
    assert_eq!(drawn.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn trunks_that_are_alike_share_their_rows() {
    let trunk = |name: &str, members: &str| {
        format!("[[network.trunk]]\nname = \"{name}\"\nrate = \"1 Gbit/s\"\nmembers = [\"{members}\"]\n")
    };
    let ends = ENDS.replace("64 KiB", "1 MiB");
    let racks: String = (1..=4)
        .map(|rack| trunk(&format!("rack {rack}"), &format!("sources {}-{}", rack * 2 - 1, rack * 2)))
        .collect();
    let drawn = tree(&format!("{ends}{racks}{}", trunk("far", "builder 4")));
    let lines = [
        "  node                            lanes go  rate        load                  buffer  under way at most",
        "  the switch at the root",
        "    builders 1-3                  down      250 Mbit/s  109 Mbit/s (43.5 %)   1 MiB   944 kB (90 %)      binds",
        "    trunks rack 1 … rack 4        up        1 Gbit/s    109 Mbit/s (10.9 %)   -       -",
        "      sources 1-8, 2 behind each  up        250 Mbit/s  54.4 Mbit/s (21.8 %)  -       -",
        "    trunk far                     down      1 Gbit/s    109 Mbit/s (10.9 %)   -       -",
        "      builder 4                   down      250 Mbit/s  109 Mbit/s (43.5 %)   1 MiB   944 kB (90 %)      binds",
    ];
    assert_eq!(drawn.lines().skip(1).collect::<Vec<_>>(), lines);
}

#[test]
fn without_a_trunk_the_page_says_what_is_assumed() {
    let page = page(ENDS);
    assert!(!page.contains("\nNetwork\n"), "{page}");
    assert!(page.contains("network        assumed: one switch that carries all its ports at once"), "{page}");
}

#[test]
fn json_has_the_nodes() {
    let text_of = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"10.0.3.1:7000\"\ntrigger = \"as-fast-as-possible\"\n{ENDS}\
         [[network.trunk]]\nname = \"outer\"\nrate = \"400 Mbit/s\"\nmembers = [\"inner\"]\n\
         [[network.trunk]]\nname = \"inner\"\nrate = \"500 Mbit/s\"\nmembers = [\"builders 1-4\"]\n"
    );
    let loaded = read(&text_of, "test.toml").expect("valid");
    let (sums, problems) = admission::admit(&loaded, None);
    let object = json(Some((&loaded.config, &sums, &GrantPaths::assumed())), Some(&problems));
    let nodes = object["nodes"].as_array().expect("a list");
    assert_eq!((&nodes[0]["node"], &nodes[0]["binds"]), (&"outer".into(), &true.into()));
    assert_eq!((&nodes[1]["behind"], &nodes[1]["binds"]), (&"outer".into(), &false.into()));
    assert_eq!(nodes[1]["directions"][0]["builders"], 4);
    assert_eq!(object["limited_by"], "the trunk `outer`");
}
