use serde_json::json;

use super::*;

const STUDY: &str = r#"
name = "s"
full = "evb-bench x"
quick = "evb-bench x"
kept = [{ at = "/more/*", columns = ["/k", "/off"] }]
[[block]]
name = "a"
notes = "kept"
printed = ["from", "to"]
table = { rows = { at = "/points/*", are = { "/k" = "tcp" } }, columns = [
    { head = "rate", at = "/rate/mean", error = "/rate/half" },
] }
[[block]]
name = "b"
table = { rows = { at = "/attached/@rates/value/*" }, columns = [{ head = "x", at = "/x" }] }
"#;

const CSV: &str = "# study: s
# command: evb-bench x
# evbd: evbd 1
# kernel: 6.1
# processor: P
# cores: 2
# verdict: 1 of 2 bounds hold
# note: kept: 1 %
# printed: from b
# printed:
# printed:   to c
list,k,rate/mean,rate/half,x,off
points,tcp,1.5,0.25,,
points,\"udp, \"\"fast\"\"\",20000000000,,,
rates,,,,\"[1,2.5]\",
rates,,,,true,
more,#,,,,-0.001
";

fn study() -> Study {
    toml::from_str(STUDY).unwrap()
}

fn run() -> Value {
    json!({
        "study": "s", "command": "evb-bench x", "evbd": "evbd 1",
        "machine": { "kernel": "6.1", "processor": "P", "cores": 2, "load": null },
        "result": {
            "points": [
                { "k": "tcp", "rate": { "mean": 1.5, "half": 0.25, "samples": [1, 2] } },
                { "k": "udp, \"fast\"", "rate": { "mean": 20_000_000_000_u64, "half": null } },
            ],
            "attached": [{ "name": "rates", "value": [{ "x": [1, 2.5] }, { "x": true }] }, { "name": "other" }],
            "more": [{ "k": "#", "off": -0.001 }],
            "notes": ["other", "kept: 1 %", "figure: kept.svg"],
            "printed": ["a", "from b", "", "  to c", "to d"],
            "verdicts": [{ "holds": true }, { "holds": false }],
        },
    })
}

#[test]
fn a_result_is_kept_as_csv() {
    let mut study = study();
    study.blocks[0].printed = Some(["from".to_owned(), "  to".to_owned()]);
    let kept = Kept::of_run(&study, &run()).unwrap();
    assert_eq!(kept.csv().unwrap(), CSV);
    let read = Kept::read(CSV).unwrap();
    assert_eq!(read, kept);
    assert_eq!(read.about("command"), Some("evb-bench x"));
    assert_eq!(read.all_about("printed").collect::<Vec<_>>(), ["from b", "", "  to c"]);
}

#[test]
fn a_result_without_rows_has_comment_lines_only() {
    let text = "# command: evbd check x\n# verdict: no bounds\n# note: kept\n";
    let mut study = study();
    study.kept.clear();
    study.blocks.truncate(1);
    study.blocks[0].table = None;
    let run = json!({ "command": "evbd check x", "result": { "notes": ["kept"] } });
    let kept = Kept::of_run(&study, &run).unwrap();
    assert_eq!(kept.csv().unwrap(), text);
    assert_eq!(Kept::read(text).unwrap(), kept);
}

#[test]
fn rows_have_what_is_asked() {
    let kept = Kept::read("list,k,n\na,tcp,1\na,tcp udp,2\na,,1\nb,tcp,1\n").unwrap();
    let count = |are: &[(&str, &str)], have: &[(&str, &str)]| {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        kept.rows(&Rows { at: "/a/*".to_owned(), are: map(are), have: map(have) }).len()
    };
    assert_eq!(count(&[], &[]), 3);
    assert_eq!(count(&[("/n", "1")], &[]), 2);
    assert_eq!(count(&[("/k", "tcp")], &[]), 1);
    assert_eq!(count(&[], &[("/k", "tcp")]), 2);
    assert_eq!(count(&[("/n", "1")], &[("/k", "tcp")]), 1);
}

#[test]
fn lists_are_named_by_their_path() {
    for (path, name) in
        [("/points/*", "points"), ("/attached/*", "attached"), ("/attached/@a b/value/*", "a b")]
    {
        assert_eq!(list(path), name);
    }
}

#[test]
fn the_verdict_counts_the_bounds() {
    for (result, text) in [
        (json!({}), "no bounds"),
        (json!({ "holds": true }), "the bounds hold"),
        (json!({ "holds": false }), "a bound does not hold"),
        (json!({ "verdicts": [{ "holds": true }] }), "1 of 1 bounds hold"),
    ] {
        assert_eq!(verdict(&result), text);
    }
}

#[test]
fn what_csv_cannot_keep_is_refused() {
    for k in [json!("12"), json!(""), json!("true")] {
        let run = json!({ "result": { "more": [{ "k": k, "off": 1 }] } });
        assert!(Kept::of_run(&study(), &run).unwrap_err().to_string().contains("cannot keep a value"), "{k}");
    }
    let run = json!({ "result": { "notes": ["kept\n# 2"] } });
    assert!(Kept::of_run(&study(), &run).is_err());
}

#[test]
fn damaged_files_are_refused() {
    for text in ["# no word\n", "list,k\na,1,2\n", "list,k\na\n"] {
        assert!(Kept::read(text).is_err(), "{text:?}");
    }
}
