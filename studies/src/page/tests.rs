use serde_json::{Value, json};

use super::{
    super::result::{RESULTS, Stored},
    *,
};

const CATALOG: &str = r#"
[[figure]]
id = "kek-1"
shows = "classes"
status = "reproduced"
studies = ["s"]
section = "kek.md#kek-1"
[[figure]]
id = "kek-2"
shows = "buckets"
status = "reproduced"
section = "kek.md#kek-2"
[[figure]]
id = "kek-3"
shows = "Linux"
status = "not applicable"
reason = "a drawing"
section = "kek.md#kek-3"
[[study]]
name = "s"
full = "evb-bench x --long examples/x.toml"
quick = "evb-bench x"
draws = true
[[study.block]]
name = "b"
picture = "A picture"
caption = "In Mbit/s:"
notes = "kept"
printed = ["from", "to"]
table = { rows = { at = "/points/*" }, columns = [{ head = "x", at = "/x" }] }
"#;

const PAGE: &str = "# Page\n\n<!-- begin: b -->\nold\n<!-- end: b -->\n\nText\n";

fn page(text: &str, result: Option<Value>) -> Result<String> {
    let catalog = Catalog::read(CATALOG).unwrap();
    let csv = |result| {
        let run = json!({ "command": "evb-bench x", "evbd": "evbd 9.9.9", "result": result,
            "machine": { "kernel": "6.1", "processor": "P", "cores": 2 } });
        Kept::of_run(&catalog.studies[0], &run).unwrap().csv().unwrap()
    };
    let path = format!("{RESULTS}/s.csv");
    let files: Vec<(&str, String)> = result.into_iter().map(|result| (&*path, csv(result))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    filled(text, &catalog, &Stored::of(files).unwrap())
}

#[test]
fn a_block_without_a_result_says_so() {
    let text = page(PAGE, None).unwrap();
    assert_eq!(
        text,
        "# Page\n\n<!-- begin: b -->\n\n```text\nevb-bench x --long examples/x.toml\n```\n\n*Not measured \
         yet.*\n\n<!-- end: b -->\n\nText\n"
    );
    assert_eq!(page(&text, None).unwrap(), text, "a second time changes nothing");
}

#[test]
fn a_block_has_command_picture_table_notes_and_machine() {
    let result = json!({ "points": [{ "x": 1 }], "notes": ["kept 1", "other"], "printed": ["a", "from b", "to c", "d"] });
    let text = page(PAGE, Some(result)).unwrap();
    for part in [
        "```text\nevb-bench x\n```\n\n![A picture](figures/s.svg)\n\nIn Mbit/s:\n\n| x |\n|--:|\n| 1 |\n",
        "\n\n* kept 1\n\n",
        "```text\nfrom b\nto c\n```",
        "Measured with evbd 9.9.9 on Linux 6.1, P, 2 cores.\n\n<!-- end: b -->\n\nText\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("other") && !text.contains("old"));
    assert_eq!(page(&text, None).unwrap(), page(PAGE, None).unwrap());
}

#[test]
fn what_a_block_needs_must_be_there() {
    let whole = json!({ "points": [{ "x": 1 }], "notes": ["kept"], "printed": ["from", "to"] });
    assert!(page(PAGE, Some(whole.clone())).is_ok());
    for lacking in ["points", "notes", "printed"] {
        let mut result = whole.clone();
        result.as_object_mut().unwrap().remove(lacking);
        assert!(page(PAGE, Some(result)).is_err(), "{lacking}");
    }
    for (text, reason) in [
        ("<!-- begin: c -->\n<!-- end: c -->\n", "no study has such a block"),
        ("<!-- begin: b -->\n<!-- end: c -->\n", "no line `<!-- end: b -->`"),
    ] {
        let error = format!("{:#}", page(text, None).unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_figure_has_its_status_only_with_a_result() {
    const INDEX: &str =
        "<!-- begin: counts -->\n<!-- end: counts -->\n<!-- begin: figures -->\n<!-- end: figures -->\n";
    let text = page(INDEX, None).unwrap();
    assert!(
        text.contains("| [KEK 1](kek.md#kek-1) | classes | not measured yet | – | `evb-bench x` |"),
        "{text}"
    );
    assert!(text.contains("| [KEK 3](kek.md#kek-3) | Linux | not applicable | a drawing | – |"), "{text}");
    let text = page(INDEX, Some(json!({}))).unwrap();
    assert!(text.contains("| classes | reproduced |"), "{text}");
    assert!(
        text.contains("| buckets | not measured yet |"),
        "a figure without a study is not reproduced: {text}"
    );
    assert!(
        text.contains(
            "Of 3 figures and plots, 1 are reproduced, 0 are reproduced in part, 1 are not measured"
        )
    );
}
