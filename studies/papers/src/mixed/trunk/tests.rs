use super::*;

#[test]
fn event_data_have_their_share_of_the_trunk() {
    let shape = shape(100);
    // A fragment of 16 000 bytes takes 12 frames with 66 bytes of headers each; two sources send.
    let bits = 2.0 * (16_000.0 + 12.0 * 66.0) * 8.0;
    assert!((events_per_s(shape, Transport::Tcp) * bits - 60e6).abs() < 1.0);
    assert_eq!(shape.carries(), 100e6);
}

#[test]
fn only_the_case_with_classes_can_fail() {
    let failed = |company, rate, p99_ms| {
        let mut report = Report::bare("x");
        let alone = Kept { rate: 1.0, p99_ms: 4.0 };
        judge("x", company, Kept { rate, p99_ms }, alone, &mut report);
        report.failed().len()
    };
    assert_eq!(failed(Company::OfficeWithClasses, 0.995, 5.9), 0);
    assert_eq!(failed(Company::OfficeWithClasses, 0.98, 6.1), 2);
    assert_eq!(failed(Company::Office, 0.5, 60.0), 0);
}
