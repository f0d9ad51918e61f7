use super::*;

#[test]
fn bounds_hold_or_not() {
    let verdict = |measured, bound| Verdict { what: String::new(), measured, bound, is_noisy: false }.holds();
    assert!(verdict(1.0, Bound::AtLeast(1.0)) && verdict(1.0, Bound::AtMost(1.0)));
    assert!(!verdict(0.9, Bound::AtLeast(1.0)) && !verdict(1.1, Bound::AtMost(1.0)));
    assert!(!verdict(f64::NAN, Bound::AtLeast(0.0)) && !verdict(f64::NAN, Bound::AtMost(1.0)));
}

#[test]
fn a_report_without_bounds_does_not_pass() {
    let folder = std::env::temp_dir().join(format!("evb-report-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut report = Report::new("empty");
    assert!(!report.finish(&folder).unwrap());
    report.holds("one", 1.0, Bound::AtLeast(1.0));
    assert!(report.finish(&folder).unwrap());
    report.holds("two", 0.0, Bound::AtLeast(1.0));
    assert!(!report.finish(&folder).unwrap());
    let written: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("empty.json")).unwrap()).unwrap();
    assert_eq!(written["verdicts"][1]["holds"], false);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_noise_can_break_is_noted_and_nothing_else() {
    let folder = std::env::temp_dir().join(format!("evb-noisy-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut report = Report::bare("noisy");
    report.noisy("goodput", 0.5, Bound::AtLeast(0.9));
    assert!(report.finish(&folder).unwrap());
    assert_eq!(report.failed(), ["goodput: 0.5"], "it is named all the same");
    report.holds("drops", 1.0, Bound::AtMost(0.0));
    assert!(!report.finish(&folder).unwrap());
    let words: Vec<_> = report.verdicts.iter().map(Verdict::word).collect();
    assert_eq!(words, ["noted", "FAIL"]);
    let mut report = Report::bare("noisy");
    report.noisy("seconds until it happens", f64::NAN, Bound::AtMost(1.0));
    assert!(!report.finish(&folder).unwrap(), "it never happened");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_lines_of_a_script_are_results() {
    let mut report = Report::bare("packages");
    assert_eq!(report.results("RESULT 1 good\nnoise\nRESULT 0 bad thing\n"), 2);
    assert_eq!(report.failed(), ["bad thing: 0"]);
}
