//! Configurations: read, checked, and shown.

use evb_daemon::{admission, check as shown, config::read};

/// Reads the bytes as a configuration.
///
/// # Panics
/// A refusal names no line, or what is read cannot be shown.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match read(text, "fuzz.toml") {
        Ok(loaded) => {
            let (sums, problems) = admission::admit(&loaded, None);
            assert!(!shown::text(&loaded.config, &sums, &admission::ROUND_TRIPS).is_empty());
            let json = shown::json(Some((&loaded.config, &sums, &admission::ROUND_TRIPS)), Some(&problems));
            assert!(json.is_object());
        }
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

/// The examples, and each block of the manual behind what it needs.
pub fn seeds() -> Vec<Vec<u8>> {
    const QUICKSTART: &str = include_str!("../../examples/quickstart.toml");
    const MANUAL: &str = include_str!("../../docs/configuration.md");
    let blocks = MANUAL.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = [
        QUICKSTART,
        include_str!("../../examples/frontend.toml"),
        include_str!("../../examples/km3net.toml"),
    ];
    examples.into_iter().chain(blocks).map(|text| text.as_bytes().to_vec()).collect()
}
