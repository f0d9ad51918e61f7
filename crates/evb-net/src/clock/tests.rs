#[test]
fn monotonic_time_moves_and_wall_time_is_of_this_century() {
    let first = super::now();
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(super::now().since(first) >= std::time::Duration::from_millis(2));
    assert!(super::wall_clock_micros() > 946_684_800_000_000);
}
