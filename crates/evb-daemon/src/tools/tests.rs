use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
};
use evb_file::{
    EventFileWriter, FileIdentity, RunReport, VerifyOptions, VerifyReport, WriterOptions, verify,
};

#[test]
fn json_says_whether_it_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let (run, epoch, builder) = (RunNumber::new(3), Epoch::new(1), BuilderId::new(1));
    let identity =
        FileIdentity { run, epoch, builder, sources: vec![SourceId::new(1)], ..FileIdentity::default() };
    let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default()).unwrap();
    let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
    event.add(SourceId::new(1), Timestamp::new(0), "data".into());
    writer.append(&event).unwrap();
    writer.close().unwrap();
    for (expected, clean) in [(1, true), (2, false)] {
        let options = VerifyOptions { expected: Some(expected), ..VerifyOptions::default() };
        let report = verify(&[dir.path().to_owned()], &options).unwrap();
        let json = serde_json::to_value(super::verify::Json::of(&report)).unwrap();
        assert_eq!(json["clean"], clean);
        assert_eq!(json["runs"][0]["clean"], clean);
        assert_eq!(json["runs"][0]["run"], 3);
        assert_eq!(json["runs"][0]["complete"], 1);
    }
}

#[test]
fn each_kind_of_finding_has_advice() {
    let clean = RunReport::default();
    let mut torn = RunReport::default();
    torn.torn_tails.total = 1;
    let report = |run| VerifyReport { runs: vec![run], ..VerifyReport::default() };
    assert!(super::verify::advice(&report(clean)).is_empty());
    let advice = super::verify::advice(&report(torn));
    assert!(advice.len() == 1 && advice[0].starts_with("torn tails: "), "{advice:?}");
    let mut superseded = RunReport::default();
    superseded.superseded.total = 1;
    let advice = super::verify::advice(&report(superseded));
    assert!(advice.len() == 1 && advice[0].contains("nothing needs to be done"), "{advice:?}");
    let misaligned = RunReport { misaligned: 1, ..RunReport::default() };
    let advice = super::verify::advice(&report(misaligned));
    assert!(advice.len() == 1 && advice[0].starts_with("misaligned events: "), "{advice:?}");
    let lossy = RunReport { lossy: 1, ..RunReport::default() };
    let advice = super::verify::advice(&report(lossy));
    assert!(advice.len() == 1 && advice[0].starts_with("lost packets: "), "{advice:?}");
}
