//! The examples of front ends in the documentation, and `examples/frontend.py`.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use evb_needs::{granted, programs};

use crate::system::{EVENTS, System, fragment};

/// Returns the text of a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns the code of that language in the page about front ends.
fn example(language: &str) -> String {
    let page = read("docs/reference/front-end.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Runs a run in which the first source gets one fragment from an example, and all others of this
/// run from the test.
fn serves(system: &System, mut front_end: Child) {
    // A source whose last front end closes its connection has no readout.
    let mut one = system.connect(1);
    system.begin();
    assert!(front_end.wait().unwrap().success());
    system.wait_for("pushed", |status| status["survey"]["sources"][0]["live"]["pushed"] == 1);
    (2..=EVENTS).for_each(|event| one.send(&fragment(1, 1, event)));
    system.connect(2).send_run(1);
    let summary = system.end(1);
    assert_eq!(summary["events"]["complete"], EVENTS, "{summary:#}");
    let events = system.events(1);
    let first = events.iter().find(|event| event.id.number() == 1).unwrap();
    let sent = first.fragments().next().unwrap();
    assert_eq!((sent.payload, sent.timestamp.ticks()), (&[0xaa, 0xbb][..], 5));
    assert!(system.log().contains("tpc"), "{}", system.log());
}

#[test]
fn the_python_of_the_page_sends_a_fragment() {
    let Some(()) = granted(programs(&["python3"])) else { return };
    let system = System::start("");
    system.wait_until_ready(0);
    drop(system.connect(1));
    let port = system.address(1).replace("127.0.0.1:", "");
    let code = example("python").replace("7201", &port);
    serves(&system, Command::new("python3").args(["-c", &code]).spawn().unwrap());
}

#[test]
fn the_c_of_the_page_sends_a_fragment() {
    let Some(()) = granted(programs(&["cc"])) else { return };
    let system = System::start("");
    system.wait_until_ready(0);
    drop(system.connect(1));
    let port = system.address(1).replace("127.0.0.1:", "");
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("main.c"), dir.path().join("main"));
    let code = format!(
        r#"#include <arpa/inet.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {{
    struct sockaddr_in address = {{ .sin_family = AF_INET, .sin_port = htons({port}) }};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int evb = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(evb, (struct sockaddr *)&address, sizeof address) != 0) return 1;
    {}
    return 0;
}}
"#,
        example("c")
    );
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-std=gnu11", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    serves(&system, Command::new(program).spawn().unwrap());
}

#[test]
fn the_example_in_python_sends_a_run() {
    let Some(()) = granted(programs(&["python3"])) else { return };
    let system = System::start("");
    system.wait_until_ready(0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/frontend.py");
    let front_ends = [1, 2].map(|source| {
        let mut command = Command::new("python3");
        command.arg(&script).arg(system.address(source)).args(["--events", &EVENTS.to_string()]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    });
    system.wait_for_front_ends();
    system.begin();
    for front_end in front_ends {
        let output = front_end.wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("run 1: {EVENTS} fragments were accepted\n"));
    }
    let summary = system.end(1);
    assert_eq!((&summary["exit_code"], &summary["remarks"]), (&0.into(), &serde_json::json!([])));
}
