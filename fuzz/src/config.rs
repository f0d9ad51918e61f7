//! Fuzz target for configuration files, which are parsed, checked and displayed, and for the grant
//! paths in run summaries.

use evb_config::{
    Loaded,
    admission::{self, GrantPaths, MeasuredPath},
    check as shown, read,
};

const QUICKSTART: &str = include_str!("../../examples/quickstart.toml");

/// Configuration with which a grant path from a run summary is displayed.
const PORT: &str = "[network]\nlink_rate = \"10 Gbit/s\"\nport_buffer = \"128 KiB\"\n";

/// Parses the bytes as a configuration, and as a run summary.
///
/// # Panics
/// Panics if an error names no line of the text, or if a valid configuration cannot be displayed.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match MeasuredPath::parse("fuzz.json".to_owned(), text) {
        Ok(path) => {
            let with_port = QUICKSTART.replace("[network]\n", PORT);
            show(&read(&with_port, "quickstart.toml").expect("it is right"), &path.into());
        }
        Err(error) => assert!(error.to_string().contains("fuzz.json")),
    }
    match read(text, "fuzz.toml") {
        Ok(loaded) => show(&loaded, &GrantPaths::assumed()),
        Err(problems) => {
            assert!(problems.are_fatal());
            let (lines, words) = (text.matches('\n').count() + 1, problems.to_string());
            for problem in problems.iter() {
                let line = problems.line_of(problem);
                assert!((1..=lines).contains(&line), "line {line} of {lines}");
                assert!(words.contains(&format!("fuzz.toml:{line}:")));
                assert!(!problem.reason.is_empty() && !problem.remedy.is_empty());
            }
        }
    }
}

fn show(loaded: &Loaded, paths: &GrantPaths) {
    let (sums, problems) = admission::admit(loaded, None);
    let planning = admission::planning(&loaded.config, &sums, paths);
    let pages = [shown::head, shown::text];
    assert!(pages.iter().all(|page| !page(&loaded.config, &sums, &planning).is_empty()));
    assert!(shown::json(Some((&loaded.config, &sums, paths)), Some(&problems)).is_object());
}

/// Returns the seed corpus: example configurations, a run summary, and all TOML blocks of the
/// manual.
pub fn seeds() -> Vec<Vec<u8>> {
    const SUMMARY: &str = r#"{"grant_path_us": {"first_byte": {"p50": 120, "p99": 300}, "builder_write": {"p50": 8, "p99": 15},
        "source_wake_up": {"p50": 60, "p99": 110}, "derived_rest": {"p50": 15}, "with_network": true}}"#;
    const MANUAL: &str = include_str!("../../docs/reference/configuration.md");
    let blocks = MANUAL.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = [
        QUICKSTART,
        include_str!("../../examples/frontend.toml"),
        include_str!("../../examples/km3net.toml"),
        SUMMARY,
    ];
    examples.into_iter().chain(blocks).map(|text| text.as_bytes().to_vec()).collect()
}
