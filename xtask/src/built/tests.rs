use super::executable;

#[test]
fn the_executable_is_that_of_the_named_target() {
    let messages = r#"{"reason":"compiler-artifact","target":{"name":"evb-net"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other-1"}
{"reason":"compiler-artifact","target":{"name":"kernel"},"executable":"/t/kernel-2"}
{"reason":"build-finished","success":true}"#;
    assert_eq!(executable(messages, "kernel"), Some("/t/kernel-2".into()));
    assert_eq!(executable(messages, "evb-net"), None);
}
