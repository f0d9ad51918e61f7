use evb_core::id::{EventId, SourceId};

use super::*;

const RUN: RunNumber = RunNumber::new(12);
const ID: RunId = RunId::new(0x5eed_cafe << 96 | 7);
const BUILDER: BuilderId = BuilderId::new(3);

fn slip() -> Episode {
    let (source, since) = (SourceId::new(4), EventId::new(1500));
    let (kind, text) = ("slip".to_owned(), "missed 1 trigger".to_owned());
    Episode { source, since, kind, shift: Some(1), misaligned: true, text, ..Episode::default() }
}

#[test]
fn episodes_stand_beside_the_files_of_their_run_only() {
    let dir = tempfile::tempdir().unwrap();
    let change = OwingChange::exclude(SourceId::new(4), EventId::new(9), "no power");
    write(dir.path(), (RUN, ID, BUILDER), (&[slip()], std::slice::from_ref(&change))).unwrap();
    let file = dir.path().join("run000012_b03.alignment.json");
    let told: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((told["run"].as_u64(), told["builder"].as_u64()), (Some(12), Some(3)));
    assert_eq!((&told["run_id"], &told["episodes"][0]["shift"]), (&ID.to_string().into(), &1.into()));

    let event_file = dir.path().join("run000012_b03_0000.evb");
    let header = |run_id| FileHeader { run: RUN, run_id, builder: Some(BUILDER), ..FileHeader::default() };
    let episodes = |header| read::<Episode>(&event_file, &header, "episodes");
    assert_eq!(episodes(header(ID)), [slip()]);
    assert_eq!(read::<OwingChange>(&event_file, &header(ID), "changes"), [change]);
    assert_eq!(episodes(header(RunId::new(8))), [], "another run of the same number");
    assert_eq!(episodes(FileHeader { builder: None, ..header(ID) }), [], "a merged file");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn what_cannot_be_read_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let event_file = dir.path().join("run000012_b03_0000.evb");
    let header = FileHeader { run: RUN, run_id: ID, builder: Some(BUILDER), ..FileHeader::default() };
    let id = format!("\"run_id\": \"{ID}\"");
    for text in
        ["", "[]", "{", &format!("{{{id}}}"), &format!("{{{id}, \"episodes\": [{{\"source\": 70000}}]}}")]
    {
        fs::write(dir.path().join("run000012_b03.alignment.json"), text).unwrap();
        assert_eq!(read::<Episode>(&event_file, &header, "episodes"), [], "{text}");
    }
}
