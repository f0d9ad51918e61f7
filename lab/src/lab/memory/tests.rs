use super::*;

/// Creates a memory log of one process, with one value in KiB per second.
fn memory(each: &[u64]) -> Memory {
    let mut memory = Memory::default();
    for (second, kib) in (0u64..).zip(each) {
        let now = Duration::from_secs(second);
        memory.note(now, [("b1".to_owned(), *kib)].into());
        // This value comes only half a second after a sample, so it must not be recorded.
        memory.note(now + Duration::from_millis(500), [("b1".to_owned(), u64::MAX)].into());
    }
    memory
}

#[test]
fn quarters_begin_after_the_warm_up() {
    let memory = memory(&[9999, 9999, 1024, 2048, 5, 5, 5, 5, 4096, 1024]);
    assert_eq!(memory.quarters(Duration::from_secs(2)), [("b1".to_owned(), 2.0, 4.0)]);
}

#[test]
fn nothing_measured_is_not_a_number() {
    let quarters = memory(&[1, 2, 3]).quarters(Duration::ZERO);
    assert!(quarters[0].1.is_nan() && quarters[0].2.is_nan());
    assert!(Memory::default().quarters(Duration::ZERO).is_empty());
}

#[test]
fn a_tenth_and_a_mebibyte_are_allowed() {
    let fails = |end: u64| {
        let mut report = Report::bare("memory");
        memory(&[10 * 1024, 5, 5, end]).judge("x", Duration::ZERO, &mut report);
        report.failed().len()
    };
    assert_eq!((fails(12 * 1024), fails(12 * 1024 + 1)), (0, 1));
}
