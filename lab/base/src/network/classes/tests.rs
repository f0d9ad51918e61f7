use super::*;

#[test]
fn drops_of_other_classes_do_not_count() {
    let json = r#"[{"kind":"htb","handle":"1:","root":true,"drops":12},
                   {"kind":"bfifo","parent":"1:3","drops":9},{"kind":"bfifo","parent":"1:2","drops":3}]"#;
    assert_eq!(first_drops(json), Some(3));
    assert_eq!(first_drops(r#"[{"kind":"tbf","root":true,"drops":12}]"#), None);
}
