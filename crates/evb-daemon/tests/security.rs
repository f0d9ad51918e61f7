//! `evbd` with a key: the tests make, refuse and use keys.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    thread::sleep,
    time::Duration,
};

fn evbd(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_evbd")).args(arguments).current_dir(folder).output();
    output.expect("evbd starts")
}

fn configuration(folder: &Path, transport: &str) {
    let ports = evb_needs::free_ports(2);
    let (supervisor, builder) = (ports[0], ports[1]);
    let text = format!(
        "[run]\nnumber = 1\nevents = 200\n[supervisor]\nlisten = \"127.0.0.1:{supervisor}\"\n\
         trigger = {{ kind = \"periodic\", rate = \"2 kHz\" }}\ndeadline = \"30 s\"\n[network]\ntransport = \"{transport}\"\n\
         [security]\nmode = \"psk\"\nkey_file = \"key\"\n\
         [[source]]\nids = \"1-2\"\ninput = {{ kind = \"generator\", size = \"3 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:{builder}\"\nsink = \"null\"\n"
    );
    fs::write(folder.join("run.toml"), text).expect("written");
}

#[test]
fn a_system_runs_with_the_key_that_keygen_made_and_counts_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = evbd(folder.path(), &["keygen", "key"]);
    assert!(made.status.success(), "{made:?}");
    let key = fs::read_to_string(folder.path().join("key")).expect("a file");
    assert!(!String::from_utf8_lossy(&made.stdout).contains(key.trim()), "the key is not shown");
    assert!(!evbd(folder.path(), &["keygen", "key"]).status.success(), "the key is not replaced");
    for transport in ["tcp", "udp"] {
        configuration(folder.path(), transport);
        let mut run = Command::new(env!("CARGO_BIN_EXE_evbd"));
        run.args(["run", "run.toml", "--quiet", "--summary", "summary.json"]).env("EVBD_LOG", "trace");
        let run = run.current_dir(folder.path()).output().expect("evbd starts");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{transport}: {said}");
        let summary = fs::read_to_string(folder.path().join("summary.json")).expect("a summary");
        for text in [&said, &summary] {
            assert!(!text.to_lowercase().contains(key.trim()), "the key is not shown");
        }
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        assert_eq!(summary["events"]["complete"], 200, "{transport}");
        for count in ["refused", "foreign", "keys", "forged", "limited"] {
            assert_eq!(summary["security"][count], 0, "{transport}, {count}");
        }
        assert_eq!(summary["network"]["datagrams"]["forged"], 0);
    }
}

#[test]
fn a_key_that_others_may_read_or_that_is_none_stops_the_run_before_it_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    configuration(folder.path(), "tcp");
    let missing = evbd(folder.path(), &["run", "run.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("evbd keygen"), "{missing:?}");

    assert!(evbd(folder.path(), &["keygen", "key"]).status.success());
    fs::set_permissions(folder.path().join("key"), fs::Permissions::from_mode(0o644)).expect("our own file");
    let readable = evbd(folder.path(), &["run", "run.toml"]);
    assert_eq!(readable.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&readable.stderr).contains("chmod 600 key"), "{readable:?}");
}

/// Another key in the same file is not valid beside the one that the running roles have read.
#[test]
fn a_role_keeps_the_key_that_it_read_when_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    configuration(folder.path(), "tcp");
    let text = fs::read_to_string(at("run.toml")).expect("a file");
    fs::write(at("late.toml"), text.replace("deadline", "start_timeout = \"1 s\"\ndeadline"))
        .expect("written");
    assert!(evbd(folder.path(), &["keygen", "key"]).status.success());
    let roles = ["--role", "supervisor", "--role", "source:1", "--role", "source:2"];
    let mut first = Command::new(env!("CARGO_BIN_EXE_evbd"));
    first.args(["run", "run.toml", "--quiet", "--summary", "summary.json"]).args(roles);
    let first = first.current_dir(folder.path()).spawn().expect("evbd starts");
    let supervisor =
        text.split("listen = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    while TcpStream::connect(supervisor).is_err() {
        sleep(Duration::from_millis(10));
    }
    fs::rename(at("key"), at("first.key")).expect("our own file");
    assert!(evbd(folder.path(), &["keygen", "key"]).status.success());
    let builder = |config| evbd(folder.path(), &["run", "--quiet", "--role", "builder:1", config]);
    let refused = builder("late.toml");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("copy the same key_file"), "{words}");
    fs::rename(at("first.key"), at("key")).expect("our own file");
    let built = builder("run.toml");
    assert!(built.status.success(), "{built:?}");
    assert!(first.wait_with_output().expect("a child").status.success());
    let summary = fs::read_to_string(at("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["events"]["complete"], 200);
}
