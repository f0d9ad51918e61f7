use evb_core::ledger::Annotation;

use super::*;

fn record() -> RunRecord {
    let mut record = RunRecord { version: 1, closed: true, ..RunRecord::default() };
    record.run.run = 7;
    record.run.verdict = "all 9 events complete".to_owned();
    record.run.events.complete = 9;
    record.run.annotation = Annotation { comment: "beam\u{1b}[2J\nnew".to_owned(), ..Annotation::default() };
    record.source_names.insert(3, "tpc".to_owned());
    record.report = Some(serde_json::json!({
        "dead_time_causes": [{ "cause": "sink of builder 1", "inhibited": 4 }],
        "changes": [{ "source": 3, "excluded": true, "from": 50, "why": "no power" }],
    }));
    record
}

fn described(record: &RunRecord) -> String {
    let mut text = Vec::new();
    describe(record, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_run_is_described_and_no_text_of_it_controls_the_terminal() {
    let text = described(&record());
    for part in [
        "Run 7 (",
        "verdict        all 9 events complete",
        "9 complete",
        "sources        3 tpc",
        "4 inhibited: sink of builder 1",
        "source 3 excluded from event 50: no power",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains("beam") && !text.contains('\u{1b}') && !text.contains("\nnew"), "{text}");
    let row = row(&record());
    assert!(row.contains("all 9 events complete") && !row.contains('\u{1b}') && !row.contains('\n'), "{row}");
}

#[test]
fn a_run_without_an_end_says_so() {
    let open = RunRecord { closed: false, ..record() };
    assert!(row(&open).contains("its end is not recorded"));
    assert!(described(&open).contains("latest update"));
    let earlier = RunRecord { version: 0, ..open };
    assert!(row(&earlier).contains("all 9 events complete"), "an earlier version did not say it");
}
