use evb::supervisor::{HookCall, NotedProblem, RecordedConfiguration, RecordedFile};

use super::*;

const HOSTILE: &str = "</pre><script>alert('x')</script>\u{1b}[2J&\"";

#[test]
fn a_page_has_everything_and_every_text_is_escaped() {
    let mut record = RunRecord { version: 1, closed: true, ..RunRecord::default() };
    record.run.run = 7;
    record.run.verdict = HOSTILE.to_owned();
    record.run.annotation.comment = HOSTILE.to_owned();
    record.run.remarks = vec![HOSTILE.to_owned()];
    (record.run.events.triggered, record.run.events.complete) = (1_234_567, 1_234_000);
    let text = || HOSTILE.to_owned();
    let noted =
        NotedProblem { count: 2, subject: text(), text: text(), remedy: text(), ..NotedProblem::default() };
    record.noted_problems.push(noted);
    record.problems_left_out = 5;
    record.files.push(RecordedFile {
        path: text(),
        events: 12,
        crc64_nvme: text(),
        ..RecordedFile::default()
    });
    record.hooks.calls.push(HookCall { hook: text(), program: text(), text: text(), ..HookCall::default() });
    record.source_software.insert(1, text());
    record.configuration = Some(RecordedConfiguration { text: text(), crc64_nvme: text() });
    record.series.points = [0.0, 10.0, 20.0]
        .map(|at_s| RunPoint { at_s, events: 5 * at_s as u64, ..RunPoint::default() })
        .to_vec();
    record.report = Some(serde_json::json!({
        "dead_time_causes": [{ "cause": HOSTILE, "inhibited": 4 }],
        "changes": [{ "source": 3, "excluded": true, "from": 50, "why": HOSTILE }],
        "sources": [{ "id": 3, "name": HOSTILE, "missing_by_cause": { HOSTILE: 7 } }],
        "builders": [{ "id": 1, "name": HOSTILE, "complete": 9 }],
    }));
    let html = page(&record);
    assert!(!html.contains("<script") && !html.contains('\u{1b}') && !html.contains("alert('"), "{html}");
    let escaped = "&lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;[2J&amp;&quot;";
    assert!(html.matches(escaped).count() >= 16, "{}", html.matches(escaped).count());
    for part in [
        "1\u{202f}234\u{202f}567",
        "(2 times)",
        "5 more problems are not listed",
        "<polyline",
        "Dead time by cause",
    ] {
        assert!(html.contains(part), "{part} is not in\n{html}");
    }
    // Nothing of the page is elsewhere.
    for word in ["http", "src=", "url(", "@import", "href"] {
        assert!(!html.contains(word), "{word}");
    }
}

#[test]
fn a_page_of_an_empty_record_is_whole() {
    let html = page(&RunRecord::default());
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
}

#[test]
fn a_short_last_step_is_part_of_the_one_before() {
    let points = |times: &[f64]| -> Vec<RunPoint> {
        times.iter().map(|at_s| RunPoint { at_s: *at_s, ..RunPoint::default() }).collect()
    };
    assert_eq!(whole_steps(&points(&[0.0, 10.0, 20.0, 20.1])), points(&[0.0, 10.0, 20.1]));
    for whole in [vec![], vec![0.0, 0.1], vec![0.0, 10.0, 16.0]] {
        assert_eq!(whole_steps(&points(&whole)), points(&whole));
    }
}
