use super::{
    super::{
        BuilderAddress, BuilderReport, Changes, Completions, Exception, Exclusion, FileReport, FilesReport,
        Holding, Holdings, LaneReport, Message, PathReport, Report, RoleReport, Roster, SourceReport,
    },
    *,
};

/// Returns one message of each kind that repeats a part, with `count` such parts, and the limit of
/// their number.
fn repeating(count: usize) -> [(Message, usize); 7] {
    let roster = Roster { builders: vec![BuilderAddress::default(); count], ..Roster::default() };
    let completions = Completions { exceptions: vec![Exception::default(); count], ..Completions::default() };
    let lanes = vec![LaneReport::default(); count];
    let report = Report {
        report: Some(RoleReport::Builder(BuilderReport { lanes, ..BuilderReport::default() })),
        live: None,
    };
    let paths = vec![PathReport::default(); count];
    let paths = Report {
        report: Some(RoleReport::Source(SourceReport { paths, ..SourceReport::default() })),
        live: None,
    };
    let holdings = Holdings { held: vec![Holding::default(); count], ..Holdings::default() };
    let files = Some(FilesReport { closed: 0, latest: vec![FileReport::default(); count] });
    let files = Report {
        report: Some(RoleReport::Builder(BuilderReport { files, ..BuilderReport::default() })),
        live: None,
    };
    [
        (Message::Roster(roster), MAX_BUILDERS),
        (Message::Completions(completions), MAX_EXCEPTIONS),
        (Message::Report(report), MAX_SOURCES),
        (Message::Report(paths), MAX_PATHS),
        (Message::Report(files), MAX_FILES),
        (Message::Holdings(holdings), MAX_BUILDERS + 1),
        (Message::Changes(Changes { changes: vec![Exclusion::default(); count] }), MAX_CHANGES),
    ]
}

#[test]
fn messages_of_countless_empty_parts_are_refused_before_they_take_memory() {
    for kind in 0..7 {
        let of = |count| {
            let (message, most) = repeating(count).into_iter().nth(kind).unwrap();
            (Control { message: Some(message) }, most)
        };
        let most = of(0).1;
        let fits = of(most).0;
        assert_eq!(Control::read(&fits.encode_to_vec()).as_ref(), Ok(&fits));
        for count in [most + 1, 2_000_000] {
            let refused = Control::read(&of(count).0.encode_to_vec());
            assert!(matches!(refused, Err(UnreadableMessage::Parts(_))), "{count} of {most}: {refused:?}");
        }
        // The parts are split between two encodings of the message, which the decoder would merge.
        let halves = [of(most).0.encode_to_vec(), of(1).0.encode_to_vec()].concat();
        assert!(matches!(Control::read(&halves), Err(UnreadableMessage::Parts(_))), "{most}");
    }
}

#[test]
fn what_is_cut_short_is_no_message() {
    for (message, most) in repeating(10) {
        let bytes = Control { message: Some(message) }.encode_to_vec();
        for end in 1..bytes.len() {
            assert!(matches!(Control::read(&bytes[..end]), Err(UnreadableMessage::Form(_))), "{end}, {most}");
        }
    }
}
