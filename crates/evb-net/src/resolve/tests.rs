use super::{ResolveError, resolve, split_host_port};

#[tokio::test]
async fn numbers_are_taken_as_they_are() {
    assert_eq!(resolve("127.0.0.1:7000").await.unwrap(), ["127.0.0.1:7000".parse().unwrap()]);
    assert_eq!(resolve("[::1]:7000").await.unwrap(), ["[::1]:7000".parse().unwrap()]);
}

#[tokio::test]
async fn names_are_looked_up() {
    let Some(()) = evb_needs::granted(evb_needs::localhost()) else { return };
    assert!(resolve("localhost:7000").await.unwrap().iter().all(|address| address.ip().is_loopback()));
}

#[test]
fn bad_forms_are_told_how_to_write_it() {
    for text in [
        "",
        "host",
        ":7000",
        "host:",
        "host:70000",
        "::1:7000",
        "[::1:7000",
        "a b:1",
        "host:-1",
        "a\x1b[2J:1",
        "a\nERROR forged:1",
    ] {
        let error = split_host_port(text).unwrap_err();
        assert!(matches!(error, ResolveError::Form { .. }), "{text}");
        assert!(!error.to_string().contains(char::is_control), "{text:?}: {error}");
        assert!(error.to_string().contains("host:port"));
    }
}

#[tokio::test]
async fn an_unknown_name_is_said_to_be_one() {
    let error = resolve("no-such-host.invalid:1").await.unwrap_err();
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}
