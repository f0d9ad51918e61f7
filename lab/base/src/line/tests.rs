use super::*;

#[test]
fn what_a_line_counts_is_both_ways() {
    let said = r#"[{"kind":"netem","dev":"near","packets":10,"drops":1},{"kind":"noqueue","dev":"br0"},
        {"kind":"netem","dev":"far","packets":20,"drops":3}]"#;
    let count = counted(said).unwrap();
    assert_eq!(count, LineCount { packets: 30, lost: 4 });
    assert_eq!(count.since(LineCount { packets: 10, lost: 4 }), LineCount { packets: 20, lost: 0 });
    assert!(counted(r#"[{"kind":"netem","dev":"near"}]"#).is_err());
}
