use evb_rs::{
    event::Cause,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::Utc,
};

use super::*;

fn event() -> Event {
    let mut event = Event::empty(EventId::new(7), RunNumber::new(42), Epoch::new(1), BuilderId::new(3));
    event.run_id = RunId::new(0x5eed_cafe << 96);
    event.utc = Utc::from_nanos(1_790_000_000_000_000_000);
    event.missing = [(2, Cause::NoReadout), (5, Cause::Other(99))].map(of).into();
    event.absent = [(9, Cause::Excluded)].map(of).into();
    event
}

fn of((source, cause): (u16, Cause)) -> MissingSource {
    MissingSource::new(SourceId::new(source), cause)
}

fn source(fill: impl FnOnce(Option<&mut MaybeUninit<u16>>) -> bool) -> Option<u16> {
    let mut source = MaybeUninit::new(0);
    // SAFETY: the value was initialized above.
    fill(Some(&mut source)).then(|| unsafe { source.assume_init() })
}

#[test]
fn missing_and_absent_sources_have_causes() {
    let event = event();
    let lent = Lent::new(&event);
    let event = lent.as_event();
    // SAFETY: `lent` lives.
    unsafe {
        assert_eq!((evb_event_missing_count(event), evb_event_absent_count(event)), (2, 1));
        assert_eq!(source(|place| evb_event_missing(event, 1, place)), Some(5));
        assert_eq!(source(|place| evb_event_missing(event, 2, place)), None);
        assert_eq!(source(|place| evb_event_absent(event, 0, place)), Some(9));
        assert_eq!(source(|place| evb_event_absent(event, 1, place)), None);
        let causes = [0, 1, 2].map(|index| evb_event_missing_cause(event, index));
        assert_eq!(causes, [evb_cause::EVB_CAUSE_NO_READOUT as u32, 99, 0]);
        assert_eq!(evb_event_absent_cause(event, 0), evb_cause::EVB_CAUSE_EXCLUDED as u32);
    }
}

#[test]
fn fragments_have_the_states_of_alignment_of_evb() {
    let states = [
        (evb_alignment::EVB_ALIGNMENT_UNCHECKED, Alignment::Unchecked),
        (evb_alignment::EVB_ALIGNMENT_AGREES, Alignment::Agrees),
        (evb_alignment::EVB_ALIGNMENT_DISAGREES, Alignment::Disagrees),
        (evb_alignment::EVB_ALIGNMENT_UNKNOWN, Alignment::Unknown),
        (evb_alignment::EVB_ALIGNMENT_MOVED, Alignment::Moved),
    ];
    let mut event = event();
    for (id, (_, state)) in (10..).zip(states) {
        event.add_judged(SourceId::new(id), Timestamp::new(1), state, "data".into());
    }
    let lent = Lent::new(&event);
    for (index, (code, _)) in states.into_iter().enumerate() {
        let mut by_index = MaybeUninit::uninit();
        let mut by_source = MaybeUninit::uninit();
        // SAFETY: `lent` lives, and the functions have filled what they return true for.
        unsafe {
            assert!(evb_event_fragment(lent.as_event(), index, Some(&mut by_index)));
            assert!(evb_event_fragment_of(lent.as_event(), 10 + index as u16, Some(&mut by_source)));
            for found in [by_index.assume_init(), by_source.assume_init()] {
                assert_eq!((u32::from(found.alignment), found.size), (code as u32, 4));
            }
        }
    }
}

#[test]
fn an_event_has_the_identity_of_its_run_and_utc() {
    let mut known = event();
    let mut id = MaybeUninit::new(evb_run_id { bytes: [1; 16] });
    let lent = Lent::new(&known);
    // SAFETY: `lent` lives, and the id was initialized.
    unsafe {
        assert_eq!(evb_event_utc(lent.as_event()), 1_790_000_000_000_000_000);
        assert!(evb_event_run_id(lent.as_event(), Some(&mut id)));
        assert_eq!(id.assume_init().bytes[..5], [0x5e, 0xed, 0xca, 0xfe, 0]);
    }
    known.run_id = RunId::UNKNOWN;
    let lent = Lent::new(&known);
    // SAFETY: as above.
    unsafe {
        assert!(!evb_event_run_id(lent.as_event(), Some(&mut id)));
        assert_eq!(id.assume_init().bytes[0], 0x5e, "it is left alone");
    }
}

#[test]
fn causes_have_the_words_and_codes_of_evb() {
    for code in 0..=u8::MAX {
        let cause = Cause::from_code(code);
        // SAFETY: the text has a NUL at its end.
        let text = unsafe { CStr::from_ptr(evb_cause_text(u32::from(code))) }.to_string_lossy();
        match cause {
            Cause::Other(_) => assert_eq!(text, "of a later version"),
            known => assert_eq!(text, known.to_string()),
        }
    }
    let codes = [
        (evb_cause::EVB_CAUSE_UNKNOWN, Cause::Unknown),
        (evb_cause::EVB_CAUSE_DOWN, Cause::Down),
        (evb_cause::EVB_CAUSE_SILENT, Cause::Silent),
        (evb_cause::EVB_CAUSE_NO_READOUT, Cause::NoReadout),
        (evb_cause::EVB_CAUSE_REFUSED, Cause::Refused),
        (evb_cause::EVB_CAUSE_DAMAGED, Cause::Damaged),
        (evb_cause::EVB_CAUSE_LOST_IN_NETWORK, Cause::LostInNetwork),
        (evb_cause::EVB_CAUSE_GIVEN_UP, Cause::GivenUp),
        (evb_cause::EVB_CAUSE_RELEASED, Cause::Released),
        (evb_cause::EVB_CAUSE_LOST_PACKETS, Cause::LostPackets),
        (evb_cause::EVB_CAUSE_EXCLUDED, Cause::Excluded),
        (evb_cause::EVB_CAUSE_EXPENDABLE, Cause::Expendable),
    ];
    for (code, cause) in codes {
        assert_eq!(code as u32, u32::from(cause.code()));
    }
}
