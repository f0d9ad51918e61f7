use clap::Parser as _;

use super::{FillArguments, FillTable, measure};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    fill: FillArguments,
}

fn table(arguments: &[&str]) -> FillTable {
    let line = Line::try_parse_from(["fill"].iter().chain(arguments)).expect("a command line");
    measure(&line.fill).expect("simulated")
}

/// With a deep port buffer, credit keeps the port busy over a path that leaves it mostly idle with
/// a shallow buffer. No frame is dropped with either buffer.
#[test]
fn goodput_falls_where_the_path_needs_more_than_the_buffer() {
    let table = table(&[
        "--sources",
        "8",
        "--link-rates",
        "25 Gbit/s",
        "--port-buffers",
        "64 KiB,4 MiB",
        "--span-ms",
        "5",
    ]);
    let [shallow, deep] = &table.points[..] else { panic!("{table:?}") };
    assert!(shallow.need > 2.0 && deep.need < 0.2, "{table:?}");
    assert!(shallow.part_of_wire < 0.5 && deep.part_of_wire > 0.8, "{table:?}");
    assert_eq!((shallow.drops, deep.drops), (0, 0));
}

#[test]
fn the_figure_and_the_table_have_every_number_of_sources() {
    let table = table(&[
        "--sources",
        "1,4",
        "--link-rates",
        "10 Gbit/s",
        "--port-buffers",
        "128 KiB",
        "--span-ms",
        "1",
    ]);
    let (text, svg) = (table.text(), table.figure().svg().expect("drawn"));
    assert_eq!(text.lines().count(), 2 + 1 + 2);
    assert!(svg.contains("1 source") && svg.contains("4 sources") && svg.contains("C·R/L"));
}
