use super::{super::super::provisioned::Bucket, *};

#[test]
fn the_furthest_destination_counts() {
    assert_eq!(unevenness(&[300.0, 300.0, 300.0]), 0.0);
    assert!((unevenness(&[300.0, 330.0, 270.0]) - 0.1).abs() < 1e-9);
    assert!((unevenness(&[300.0, 150.0, 450.0]) - 0.5).abs() < 1e-9);
}

#[test]
fn processor_time_is_compared_within_a_round() {
    let cost = |processes, machine| Cost { processes, machine };
    // The first of two mechanisms is evb's timers, the second htb. The machine is twice as slow in
    // the second round, and htb costs a tenth in each.
    let rounds = [
        Round { unshaped: cost(100.0, 200.0), shaped: vec![cost(150.0, 300.0), cost(110.0, 220.0)] },
        Round { unshaped: cost(200.0, 400.0), shaped: vec![cost(320.0, 640.0), cost(220.0, 440.0)] },
        Round { unshaped: cost(100.0, 200.0), shaped: vec![cost(150.0, 300.0), cost(110.0, 220.0)] },
    ];
    let mut report = Report::bare("x");
    let htb = compared("1x1", Mechanism::Kernel(Bucket::Htb), 1, &rounds, &mut report);
    assert_eq!(htb["means"], "htb");
    for ratio in ["processes_ratio", "machine_ratio"] {
        let ratios = htb[ratio].as_array().unwrap();
        assert!(ratios.iter().all(|ratio| (ratio.as_f64().unwrap() - 1.1).abs() < 1e-9), "{htb}");
    }
    let software = compared("1x1", Mechanism::Software, 0, &rounds, &mut report);
    assert_eq!(software["processes_us_per_event"], 150.0);
    assert_eq!(software["processes_us_per_event_unshaped"], 100.0);
}
