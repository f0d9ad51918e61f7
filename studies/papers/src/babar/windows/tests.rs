use super::*;

#[test]
fn equal_shares_are_fair() {
    assert_eq!(fairness(&[24.0; 4]), 1.0);
    assert_eq!(fairness(&[96.0, 0.0, 0.0, 0.0]), 0.25);
    assert!((fairness(&[2.0, 1.0]) - 0.9).abs() < 1e-9);
}

#[test]
fn the_lost_part_is_of_all_packets() {
    let counted = Counted { name: "x".into(), carried: 59_959, lost: 41, shares: vec![1.0], window: None };
    assert!((counted.fraction() - STUDY).abs() < 1e-12);
    let nothing = Counted { carried: 0, lost: 0, ..counted };
    assert_eq!(nothing.fraction(), 0.0);
}

#[test]
fn the_window_is_that_of_the_connection_that_carries_the_data() {
    let said = "0 0 10.77.1.1:3 10.77.2.1:7201\n\t cubic wscale:7,7 rto:204 bytes_sent:900 snd_wnd:65536\n\
                0 0 10.77.1.1:4 10.77.2.1:7201\n\t cubic bytes_sent:900000 bytes_acked:9 snd_wnd:8688 minrtt:0.1\n";
    assert_eq!(busiest_window(said), Some(8_688));
    assert_eq!(busiest_window("0 0 10.77.1.1:3 10.77.2.1:7101\n\t cubic"), None);
}
