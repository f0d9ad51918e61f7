use super::*;

#[test]
fn the_worst_ten_sources_are_named_and_the_others_counted() {
    let source = |id: u16| SourceSummary {
        id,
        reported: !(5..=40).contains(&id),
        missing: u64::from(id),
        crc_errors: u64::from(id == 2),
        ..SourceSummary::default()
    };
    let few: Vec<_> = (1..=4).map(source).collect();
    let problems = [
        "source 1 is missing in 1 events",
        "source 2 is missing in 2 events",
        "1 fragments of source 2 were damaged",
        "source 3 is missing in 3 events",
        "source 4 is missing in 4 events",
    ];
    assert_eq!(of_sources(&few, true), problems);
    let many: Vec<_> = (1..=1000).map(source).collect();
    let problems = of_sources(&many, true);
    assert_eq!(problems.len(), 10 + 1 + 2);
    assert_eq!(
        problems[..2],
        ["1 fragments of source 2 were damaged", "source 991 is missing in 991 events"]
    );
    assert_eq!(
        problems[11..],
        ["990 more sources are missing in up to 990 events each", "36 sources gave no final report: 5-40"]
    );
}
