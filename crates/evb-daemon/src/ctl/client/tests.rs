use super::address;

#[test]
fn urls_of_all_usual_forms_are_taken() {
    for (url, wanted) in [
        ("http://127.0.0.1:7900", "127.0.0.1:7900"),
        ("HTTP://daq0:7900/", "daq0:7900"),
        ("daq0.lab.:7900", "daq0.lab.:7900"),
        ("http://[::1]:7900/v1", "[::1]:7900"),
        ("http://daq0:7900/v1/", "daq0:7900"),
    ] {
        assert_eq!(address(url).unwrap().to_string(), wanted, "{url}");
    }
}

#[test]
fn each_wrong_url_has_its_own_reason() {
    for (url, words) in [
        ("https://127.0.0.1:7900", "without TLS"),
        ("HTTPS://127.0.0.1:7900", "without TLS"),
        ("ftp://127.0.0.1:7900", "`ftp`"),
        ("http://operator:hunter2@daq0:7900", "names a user"),
        ("http://daq0", "no port"),
        ("http://::1:7900", "brackets"),
    ] {
        let error = address(url).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("http://HOST:PORT"), "{url}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
