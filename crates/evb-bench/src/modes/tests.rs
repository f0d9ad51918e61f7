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
