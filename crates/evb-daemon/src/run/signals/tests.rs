use super::*;

/// Returns the effects of signals, each with its time in milliseconds after the first.
fn effects(signals: &[(Signal, u64)]) -> Vec<Effect> {
    let (mut asked, begin) = (ReceivedSignals::default(), Instant::now());
    signals.iter().map(|(one, millis)| asked.again(*one, begin + Duration::from_millis(*millis))).collect()
}

#[test]
fn any_request_drains_once_and_no_other_cuts_it_off() {
    for one in ENDING {
        assert_eq!(effects(&[(one, 0)]), [Effect::Drain], "{one:?}");
        for other in ENDING.into_iter().filter(|other| *other != Signal::INT || one != Signal::INT) {
            assert_eq!(
                effects(&[(one, 0), (other, 5000)]),
                [Effect::Drain, Effect::None],
                "{one:?} {other:?}"
            );
        }
    }
}

#[test]
fn only_a_second_interrupt_after_a_second_leaves() {
    let int = |millis| (Signal::INT, millis);
    assert_eq!(effects(&[int(0), int(0), int(999)]), [Effect::Drain, Effect::None, Effect::None]);
    assert_eq!(effects(&[int(0), int(1000)]), [Effect::Drain, Effect::Leave]);
    let after = [(Signal::TERM, 0), int(2000), (Signal::TERM, 2500), int(2999), int(3000)];
    assert_eq!(effects(&after), [Effect::Drain, Effect::None, Effect::None, Effect::None, Effect::Leave]);
}

#[test]
fn the_kernel_tells_what_is_ignored() {
    let status = "Name:\tevbd\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
    assert_eq!(ignored(status), mask(Signal::HUP) | mask(Signal::PIPE));
    assert_eq!((ignored(""), ignored("SigIgn:\tx")), (0, 0));
}
