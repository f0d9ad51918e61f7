use super::*;

/// An index as mdbook writes it, with two pages: `merge` has the stem `merg`.
const SCRIPT: &str = r#"window.search = Object.assign(window.search, JSON.parse('{"index":{
    "documentStore":{"docs":{
        "0":{"title":"Merge files","body":"how to merge the events\\nand don\'t lose \\"any\\""},
        "1":{"title":"Dead time","body":"the time in which nothing is merged, which is dead"}}},
    "index":{
        "title":{"root":{"m":{"e":{"r":{"g":{"docs":{"0":{"tf":1}},"df":1}}}},
                         "d":{"e":{"a":{"d":{"docs":{"1":{"tf":1}},"df":1}}}},
                         "t":{"i":{"m":{"e":{"docs":{"1":{"tf":1}},"df":1}}}}}},
        "body":{"root":{"m":{"e":{"r":{"g":{"docs":{"0":{"tf":1},"1":{"tf":1}},"df":2}}}},
                        "e":{"v":{"e":{"n":{"t":{"docs":{"0":{"tf":1}},"df":1}}}}}}}}}}'));"#;

#[test]
fn a_word_is_found_by_its_stem() {
    let index = parse(SCRIPT).unwrap();
    let found = |words| found(&index, words).into_iter().collect::<Vec<_>>();
    assert_eq!(found("merge"), ["0", "1"]);
    assert_eq!(found("Events"), ["0"]);
    assert_eq!(found("dead time"), ["1"]);
}

#[test]
fn other_words_are_not_found() {
    let index = parse(SCRIPT).unwrap();
    // The last ones are in the text, but not in the tree.
    for words in ["mergers", "dead merge", "event builder", "lose", "m"] {
        assert!(found(&index, words).is_empty(), "{words}");
    }
}

#[test]
fn quotes_in_the_script_end_no_json() {
    let index = parse(SCRIPT).unwrap();
    let body = &index["index"]["documentStore"]["docs"]["0"]["body"];
    assert_eq!(body, "how to merge the events\nand don't lose \"any\"");
    assert!(parse("window.search = 5;").is_err() && parse("JSON.parse('{").is_err());
}

#[test]
fn each_word_that_leads_nowhere_is_named() {
    let site = tempfile::tempdir().unwrap();
    assert!(unknown(site.path()).unwrap_err().to_string().contains("no index"));
    fs::write(site.path().join("searchindex-0123abcd.js"), SCRIPT).unwrap();
    let unknown = unknown(site.path()).unwrap();
    assert_eq!(unknown.len(), WORDS.len() - 2, "{unknown:?}");
    assert!(unknown.contains(&"the search finds no page for `MIDAS`".to_owned()), "{unknown:?}");
}
