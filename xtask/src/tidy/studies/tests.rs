use super::*;

const BENCH: &str = "enum Command { Modes(A), ProbeAll }";
const LAB: &str = "enum Scenario { Rcnp { short: bool }, Qos }";
const DAEMON: &str = "enum Command { Check(A), ProbeBuffer { x: u8 } }";

/// Returns a catalog with all figures of the papers, and one study with this command.
fn catalog(command: &str, more: &str) -> String {
    let figure = |id: &String| {
        format!(
            "[[figure]]\nid = \"{id}\"\nshows = \"x\"\nstatus = \"reproduced\"\nstudies = [\"s\"]\nsection = \"a.md\"\n"
        )
    };
    let figures: String = all_figures().iter().map(figure).collect();
    format!(
        "{figures}[[study]]\nname = \"s\"\nfull = \"{command}\"\nquick = \"{command}\"\n{more}[[study.block]]\nname = \"b\"\n"
    )
}

const PAGE: &str = "<!-- begin: b -->\n<!-- end: b -->\n";
const INDEX_PAGE: &str = "<!-- begin: figures -->\n<!-- end: figures -->\n";

/// Checks a repository with this catalog and pages, after `change` has been applied to the filled
/// pages.
fn found(catalog: &str, result: &str, change: impl Fn(&str) -> String) -> Vec<String> {
    let read = Catalog::read(catalog).unwrap();
    let results = format!("{RESULTS}/s.csv");
    let mut files = vec![
        (CATALOG, catalog.to_owned()),
        ("crates/evb-bench/src/lib.rs", BENCH.to_owned()),
        ("crates/evb-daemon/src/cli.rs", DAEMON.to_owned()),
        ("lab/src/lab.rs", LAB.to_owned()),
    ];
    if !result.is_empty() {
        files.push((&results, result.to_owned()));
    }
    let repo = |files: &[(&str, String)]| {
        Repo::of(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>())
    };
    let stored = stored(&repo(&files)).unwrap();
    for (path, text) in [("docs/studies/a.md", PAGE), (INDEX, INDEX_PAGE)] {
        let text = page::filled(text, &read, &stored).unwrap();
        files.push((path, change(&text)));
    }
    check(&repo(&files)).iter().map(ToString::to_string).collect()
}

fn same(text: &str) -> String {
    text.to_owned()
}

const STORED: &str = "# command: evb-bench modes\n# evbd: evbd 1\n# kernel: k\n# processor: p\n# cores: 1\n";

#[test]
fn commands_exist() {
    for good in [
        "evb-bench modes --x",
        "evb-bench probe-all",
        "evbd check x",
        "evbd probe-buffer",
        "cargo xtask lab rcnp",
    ] {
        assert_eq!(found(&catalog(good, ""), "", same), [""; 0], "{good}");
    }
    for bad in ["evb-bench stream", "evbd cheque", "cargo xtask lab atlas --x"] {
        let found = found(&catalog(bad, ""), "", same);
        assert_eq!(found.len(), 3, "the full form, the short form, and the page: {found:?}");
        assert!(found[0].contains("there is no command"), "{found:?}");
    }
    let on_page = |text: &str| {
        text.replace("## ", "").replace("<!-- begin: b -->", "evb-bench nothing\n<!-- begin: b -->")
    };
    assert!(found(&catalog("evbd check x", ""), "", on_page)[0].contains("`evb-bench nothing`"));
}

#[test]
fn every_figure_is_listed_once() {
    let whole = catalog("evbd check x", "");
    let lacking = whole.replacen("[[figure]]\nid = \"kek-7\"", "[[figure]]\nid = \"kek-8\"", 1);
    let found_here = found(&lacking, "", same);
    assert!(found_here.iter().any(|line| line.contains("`kek-7` is listed 0 times")), "{found_here:?}");
    assert!(found_here.iter().any(|line| line.contains("`kek-8` is listed 2 times")), "{found_here:?}");
    let unknown = whole.replacen("id = \"kek-7\"", "id = \"kek-77\"", 1);
    assert!(found(&unknown, "", same).iter().any(|line| line.contains("no figure `kek-77`")));
    let cut = |text: &str| {
        text.lines().filter(|line| !line.contains("KEK 7")).map(|line| format!("{line}\n")).collect()
    };
    let found = found(&whole, "", cut);
    assert!(found.iter().any(|line| line.contains("no row begins with `| [KEK 7](a.md) |`")), "{found:?}");
}

#[test]
fn pages_agree_with_the_results() {
    let catalog = catalog("evb-bench modes", "");
    assert_eq!(found(&catalog, STORED, same), [""; 0]);
    let typed = |text: &str| text.replace("Linux k", "Linux 7");
    assert!(found(&catalog, STORED, typed)[0].contains("do not agree with the results"));
    let twice = |text: &str| text.to_owned() + PAGE;
    assert!(found(&catalog, "", twice).iter().any(|line| line.contains("`b` is on the pages")));
}

#[test]
fn results_are_those_of_the_commands() {
    let other = catalog("evb-bench modes --other", "");
    assert!(found(&other, STORED, same)[0].contains("measured with another command"));
    let renamed =
        catalog("evb-bench modes", "").replace("name = \"s\"", "name = \"t\"").replace("[\"s\"]", "[\"t\"]");
    assert!(found(&renamed, STORED, same)[0].contains("no study has this name"));
}
