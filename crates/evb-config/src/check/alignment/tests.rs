use serde_json::json;

use super::{super::tests::INCAST, *};
use crate::{
    admission::{self, GrantPaths},
    check, read,
    tests::around,
};

const BOARDS: &str = "[[source]]\nid = 1\ninput = { kind = \"tcp\", listen = \"127.0.0.1:7201\" }\n\
    clock = { rate = \"125 MHz\", bits = 48 }\n\
    [[source]]\nids = \"2-3\"\ninput = { kind = \"tcp\", listen = \"127.0.0.1:{7200+id}\" }\n\
    clock = { rate = \"40.079 MHz\", wrap = 3564 }\n\
    [[source]]\nid = 4\ninput = { kind = \"tcp\", listen = \"127.0.0.1:7204\" }\n";

const POISSON: &str =
    "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"poisson\", rate = \"1 kHz\" }\n";

fn page(sections: &str) -> String {
    let loaded = read(&around(sections), "test.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let (sums, _) = admission::admit(&loaded, None);
    check::head(&loaded.config, &sums, &admission::planning(&loaded.config, &sums, &GrantPaths::assumed()))
}

fn assert_says(sections: &str, says: &[&str], not: &[&str]) {
    let page = page(sections);
    says.iter().for_each(|part| assert!(page.contains(part), "{part:?} is not in\n{page}"));
    not.iter().for_each(|part| assert!(!page.contains(part), "{part:?} is in\n{page}"));
}

#[test]
fn the_head_says_what_is_compared_and_what_is_not_seen() {
    let says = [
        "alignment  the timestamps of 3 of 4 sources are compared; source 1 counts time: 125 MHz, wraps after 26 days\n",
        "           it does not show a slip before the first event, because the triggers are periodic and the offsets of the clocks not known\n",
        "           it does not show slips of source 4, which have no `clock`\n",
    ];
    assert_says(BOARDS, &says, &["which of the two", "pauses", "too long"]);
    let pausing = format!("[alignment]\non_slip = \"pause\"\n{POISSON}{BOARDS}");
    assert_says(&pausing, &["           a source that slips pauses the run\n"], &["before the first"]);
    let external = POISSON.replace("poisson\", rate = \"1 kHz", "external\", listen = \"127.0.0.1:7001");
    assert_says(&format!("{external}{BOARDS}"), &["first event, if the triggers are periodic\n"], &[]);
    assert_says(
        &format!("{}{BOARDS}", POISSON.replace("1 kHz", "300 kHz")),
        &["a tolerance of 1 µs is too long"],
        &[],
    );
    let never = BOARDS.replace("bits = 48", "bits = 64");
    assert_says(&never, &["125 MHz, never wraps\n"], &[]);
}

#[test]
fn generators_are_not_periodic() {
    let generators = "[[source]]\nids = \"1-2\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
        clock = { rate = \"125 MHz\", bits = 48 }\n";
    let says = [
        "the timestamps of 2 of 2 sources are compared",
        "which of the two slipped; a third clock would tell",
    ];
    assert_says(generators, &says, &["before the first"]);
}

#[test]
fn without_two_clocks_nothing_is_compared() {
    assert!(!page(INCAST).contains("alignment"));
    let one = POISSON.to_owned() + BOARDS.split("[[source]]\nids").next().expect("a text");
    assert_says(
        &one,
        &["alignment  not compared: only source 1 has a clock, and a comparison needs two\n"],
        &["it does not show"],
    );
}

#[test]
fn machines_are_told_the_same() {
    let of = |sections: &str| json(&read(&around(sections), "test.toml").expect("valid").config);
    assert_eq!(of(""), Value::Null);
    let told = of(&format!("{POISSON}{BOARDS}"));
    let wrap = told["lead_wrap_s"].as_f64().expect("a number");
    assert!((wrap - 2_251_799.8).abs() < 0.1, "{wrap}");
    let expected = json!({
        "compared": [1, 2, 3],
        "lead": 1,
        "lead_wrap_s": wrap,
        "uses_host_times": true,
        "on_slip": "report",
        "unseen": ["slips of source 4, which have no `clock`"],
        "without_clock": [4],
    });
    assert_eq!(told, expected);
}
