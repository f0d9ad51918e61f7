use clap::Parser as _;

use super::{ModeTable, ModesArguments, measure};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    modes: ModesArguments,
}

fn table(line: &str) -> ModeTable {
    let line =
        Line::try_parse_from(["modes"].into_iter().chain(line.split_whitespace())).expect("a command line");
    measure(&line.modes).expect("simulated")
}

#[test]
fn shaped_modes_drop_nothing_and_the_unshaped_one_does() {
    let table = table("--sources 16 --events 20");
    let of = |mode: &str| table.points.iter().find(|point| point.mode == mode).expect("a point");
    for mode in ["credit", "window", "token-bucket"] {
        assert_eq!((of(mode).drops, of(mode).at_load_drops), (0, 0), "{mode}");
    }
    assert!(of("none").drops > 0);
    assert!(of("credit").part_of_wire() > 0.9, "{:?}", of("credit"));
    assert!(of("none").part_of_wire() < of("credit").part_of_wire());
    assert!(table.points.iter().all(|point| point.complete == 20 && point.not_complete == 0));
}

#[test]
fn the_figure_and_the_table_have_every_mode_and_say_the_world() {
    let table = table("--sources 2,4 --events 6 --modes credit,none --fragment 20kB");
    let (text, svg) = (table.text(), table.figure().svg().expect("drawn"));
    for part in ["simulated switch", "credit", "none"] {
        assert!(text.contains(part) && svg.contains(part), "{part}");
    }
    assert_eq!(text.lines().count(), 2 + 1 + 4);
}

#[test]
fn nonsense_is_refused() {
    let parse = |line: &str| {
        Line::try_parse_from(["modes"].into_iter().chain(line.split_whitespace())).expect("parsed")
    };
    assert!(measure(&parse("--load 1.5").modes).is_err());
    assert!(
        measure(&parse("--modes magic --sources 2").modes)
            .expect_err("refused")
            .to_string()
            .contains("magic")
    );
}

/// Two switches: eight sources at the first, four builders behind a trunk that carries half of
/// what their ports carry.
const TWO_SWITCHES: &str = r#"
[supervisor]
listen = "10.0.0.1:7000"
trigger = "as-fast-as-possible"
[security]
mode = "none"
[network]
link_rate = "250 Mbit/s"
port_buffer = "64 KiB"
[[network.trunk]]
name = "core"
rate = "500 Mbit/s"
buffer = "128 KiB"
members = ["10.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4"]
[[source]]
ids = "1-8"
bind = "10.0.1.{id}"
input = { kind = "generator", size = "16 kB" }
[[builder]]
ids = "1-4"
listen = "10.0.2.{id}:7100"
sink = "null"
"#;

fn of_config(text: &str, line: &str) -> Result<ModeTable, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let line = format!("modes --config {} {line}", file.path().display());
    let line = Line::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
    measure(&line.modes).map_err(|error| error.to_string())
}

#[test]
fn a_configuration_is_simulated_with_its_trunks() {
    let table =
        of_config(TWO_SWITCHES, "--modes credit,window,token-bucket,none --events 300").expect("simulated");
    let [credit, .., none] = &table.points[..] else { panic!("{table:?}") };
    assert_eq!((credit.sources, credit.builders, credit.drops), (8, 4, 0));
    assert!(credit.part_of_wire() > 0.98, "{credit:?}");
    // TCP carries 1448 of 1538 bytes, and the trunk 500 Mbit/s.
    assert!(credit.capacity_bits_per_s.abs_diff(470_741_222) < 10, "{credit:?}");
    assert!(none.drops > 0);
    let node = |mode: &str, name: &str| {
        let nodes = table.nodes.iter().find(|node| node.mode == mode && node.node == name);
        nodes.unwrap_or_else(|| panic!("{name}: {table:?}")).clone()
    };
    let (trunk, port) = (node("credit", "core down"), node("credit", "builder 3"));
    assert_eq!((trunk.rate_bits_per_s, trunk.buffer_bytes, trunk.drops), (500_000_000, 131_072, 0));
    assert_eq!((port.rate_bits_per_s, port.buffer_bytes, port.builder), (250_000_000, 65_536, Some(3)));
    assert!(trunk.peak_bytes > 32_768 && trunk.peak_bytes <= trunk.buffer_bytes, "{trunk:?}");
    assert!(node("none", "core down").drops > 100, "{table:?}");
    let drops = table.nodes.iter().filter(|node| node.mode == "none").map(|node| node.drops);
    assert_eq!(drops.sum::<u64>(), none.drops);
    let text = table.text();
    println!("{text}");
    assert!(text.contains("builders 1-4") && text.contains("trunk core down"), "{text}");
}

/// Checks that two builders behind one port, and two sources behind one link, share it.
#[test]
fn builders_of_one_port_share_it() {
    let shared = TWO_SWITCHES
        .replace("listen = \"10.0.2.{id}:7100\"", "port = \"rack\"\nlisten = \"10.0.2.1:{7100+id}\"");
    let table = of_config(
        &shared.replace("[\"10.0.2.1\", \"10.0.2.2\", \"10.0.2.3\", \"10.0.2.4\"]", "[\"10.0.2.1\"]"),
        "--modes credit",
    )
    .expect("simulated");
    let point = &table.points[0];
    assert!(point.capacity_bits_per_s.abs_diff(235_370_611) < 10, "one port of 250 Mbit/s: {point:?}");
    assert!(point.part_of_wire() > 0.97 && point.drops == 0, "{point:?}");
}

#[test]
fn a_configuration_excludes_arguments_that_it_states_and_needs_rates() {
    for argument in
        ["--sources 4", "--builders 2", "--link-rate 1Gbit/s", "--port-buffer 64KiB", "--fragment 1kB"]
    {
        let refused = of_config(TWO_SWITCHES, argument).expect_err("refused");
        assert!(refused.contains("cannot be used with"), "{refused}");
    }
    let refused =
        of_config(&TWO_SWITCHES.replace("link_rate = \"250 Mbit/s\"", ""), "").expect_err("refused");
    assert!(refused.contains("link_rate is not stated"), "{refused}");
    let refused = of_config("[supervisor]", "").expect_err("refused");
    assert!(refused.contains("listen"), "{refused}");
}
