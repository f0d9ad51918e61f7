//! A run whose boards have clocks names the board that slips: in its output, its report and its
//! files.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use evb::input::{FragmentSize, Generator};
use evb_core::{id::SourceId, units::Bytes};
use evb_file::{Episode, Merge, Selection};
use serde_json::Value;

const EVENTS: u64 = 3000;

fn evbd() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evbd"))
}

/// Runs four sources with clocks and two builders, of which source 4 has the given faulty input.
fn run(folder: &Path, fault: &str, extra: &str) -> (Output, Value) {
    let (config, summary) = (folder.join("config.toml"), folder.join("summary.json"));
    let ports = evb_needs::free_ports(3);
    let out = folder.join("out");
    let text = format!(
        "{extra}\n[run]\nnumber = 1\nevents = {EVENTS}\n\
         [supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"periodic\", rate = \"2 kHz\" }}\n\
         [[source]]\nids = \"1-3\"\nclock = {{ rate = \"125 MHz\", bits = 48 }}\n\
         input = {{ kind = \"generator\", size = \"100 B\" }}\n\
         [[source]]\nid = 4\nname = \"calo\"\nclock = {{ rate = \"100 MHz\", bits = 40 }}\n\
         input = {{ kind = \"generator\", size = \"100 B\"{fault} }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"{}\" }}\n\
         [[builder]]\nid = 2\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"{}\" }}\n",
        ports[0],
        ports[1],
        out.display(),
        ports[2],
        out.display()
    );
    fs::write(&config, text).expect("written");
    let ran = evbd().arg("run").arg(&config).arg("--summary").arg(&summary).output().expect("evbd starts");
    let report = fs::read(&summary).expect("a summary");
    (ran, serde_json::from_slice(&report).expect("JSON"))
}

/// Returns the report of `evbd verify --align` over the files of the run.
fn aligned(folder: &Path) -> Value {
    let mut verify = evbd();
    verify.args(["verify", "--json", "--align"]).arg(folder.join("config.toml")).arg(folder.join("out"));
    let said = verify.output().expect("evbd starts").stdout;
    let report: Value = serde_json::from_slice(&said).expect("JSON");
    report["alignment"].clone()
}

#[test]
fn a_healthy_run_is_good() {
    let folder = tempfile::tempdir().expect("a directory");
    let (ran, summary) = run(folder.path(), "", "");
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(summary["problems"].as_array().map(Vec::len), Some(0), "{summary}");
    let found = aligned(folder.path());
    assert_eq!((&found["events"], &found["disagreeing"]), (&EVENTS.into(), &0.into()));
}

#[test]
fn a_board_that_misses_a_trigger_is_named_while_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a directory");
    let (ran, summary) = run(folder.path(), ", fault = { slip = 1, at = 1500 }", "");
    let said = String::from_utf8_lossy(&ran.stderr);
    let sentence =
        "since event 1500, source 4 (calo) missed 1 trigger: its fragments belong to 1 event later";
    assert_eq!((ran.status.code(), said.matches(sentence).count()), (Some(1), 1), "{said}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains(sentence));
    let problems = summary["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 1, "{summary}");
    assert!(problems[0].as_str().is_some_and(|problem| problem.starts_with(sentence)));
    // The files say the same as the run.
    let found = aligned(folder.path());
    let episodes = found["episodes"].as_array().expect("a list");
    assert_eq!(episodes.len(), 1, "{found}");
    let of = |key: &str| episodes[0][key].clone();
    assert_eq!((of("source"), of("since"), of("shift")), (4.into(), 1500.into(), 1.into()));
    assert_eq!(found["disagreeing"], EVENTS - 1499);
    let flagged: u64 = summary["sources"].as_array().expect("a list")[3]["disagreeing"].as_u64().unwrap_or(0);
    assert_eq!(flagged, EVENTS - 1499, "{summary}");
}

/// The generator's payload depends on its event, so it tells to which event a fragment belongs.
#[test]
fn a_slip_is_repaired_in_merged_files() {
    for (shift, at) in [(1i64, 1500u64), (-2, 1200), (16, 900)] {
        let folder = tempfile::tempdir().expect("a directory");
        run(folder.path(), &format!(", fault = {{ slip = {shift}, at = {at} }}"), "");
        let (from, to) = (folder.path().join("out"), folder.path().join("repaired"));
        let mut merge = evbd();
        let merged = merge.args(["merge", "--realign", "--out"]).arg(&to).arg(&from).output();
        let said = merged.expect("evbd starts");
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(text.contains(&format!("repaired: since event {at}, source 4")), "{text}");

        let mut files = Merge::open(&[to], &Selection::default()).expect("one run");
        let source = SourceId::new(4);
        let mut board = Generator::new(source, FragmentSize::Fixed(Bytes::new(100)), Bytes::kib(1), 0);
        let mut lacking = Vec::new();
        while let Some(event) = files.next_event().expect("readable") {
            match event.fragment(source) {
                Some(found) => assert_eq!(found.payload, &board.generate(event.id).payload, "{}", event.id),
                None => lacking.push(event.id.number()),
            }
        }
        // What the board did not send: the missed triggers, or what would have come after the end.
        let without = shift.unsigned_abs();
        let expected = if shift > 0 { at..at + without } else { EVENTS + 1 - without..EVENTS + 1 };
        assert_eq!(lacking, expected.collect::<Vec<_>>(), "{shift}");
        // The files of the run have the same episodes as `verify --align` finds.
        let told = &files.identity().episodes;
        let found = aligned(folder.path());
        let found: Vec<Episode> = serde_json::from_value(found["episodes"].clone()).expect("episodes");
        assert_eq!((told, told[0].shift), (&found, Some(shift)));
    }
}

#[test]
fn on_request_a_slip_ends_the_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let stop = "[alignment]\non_slip = \"stop\"";
    let (ran, summary) = run(folder.path(), ", fault = { slip = -1, at = 1000 }", stop);
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    let triggered = summary["events"]["triggered"].as_u64().expect("a number");
    assert!((1000..EVENTS).contains(&triggered), "{triggered}");
    let problem = summary["problems"][0].as_str().expect("a problem");
    assert!(problem.contains("since event 1000, source 4 (calo) had 1 trigger twice"), "{problem}");
}
