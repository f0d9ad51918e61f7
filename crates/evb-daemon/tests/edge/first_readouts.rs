//! Runs that are to begin while no front end is connected.

use std::{fs, process::Command, thread, time::Duration};

use crate::{
    front_end::FrontEnd,
    system::{EVENTS, System},
};

/// Sends all fragments of run 1 on these connections.
fn serve(front_ends: [FrontEnd; 2]) {
    for mut front_end in front_ends {
        front_end.send_run(1);
    }
}

#[test]
fn a_start_warns_of_sources_without_a_front_end() {
    let system = System::with_control("");
    system.wait_until_ready(0);
    let one = system.connect(1);
    let is_named = |status: &serde_json::Value| {
        let problems = status["problems"].as_array().unwrap();
        let texts: Vec<String> =
            problems.iter().map(|one| format!("{}: {}", one["subject"], one["text"])).collect();
        texts == ["\"source 2\": \"no front end is connected\""]
    };
    system.wait_for("named", is_named);
    system.begin();
    serve([one, system.connect(2)]);
    let summary = system.end(1);
    let said = "source 2 had no readout at the start of the run, because none of its front ends was connected: start its readout program, which may join during the run";
    assert!(summary["remarks"].as_array().unwrap().iter().any(|remark| remark == said), "{summary:#}");
    assert_eq!(summary["events"]["complete"], EVENTS);
}

#[test]
fn a_start_that_requires_readouts_is_refused_without_them() {
    let system = System::with_control("require_readout = \"refuse\"");
    system.wait_until_ready(0);
    let one = system.connect(1);
    system.wait_for("connected", |status| status["survey"]["sources"][0]["front_ends"]["connected"] == 1);
    let refused = system.ctl(&["start"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("source 2") && said.contains("no front end"),
        "{said}"
    );
    let two = system.connect(2);
    system.wait_for("connected", |status| status["survey"]["sources"][1]["front_ends"]["connected"] == 1);
    system.begin();
    serve([one, two]);
    assert_eq!(system.end(1)["events"]["complete"], EVENTS);
}

#[test]
fn a_run_that_starts_by_itself_waits_for_its_front_ends() {
    let system = System::with_control("autostart = true");
    let one = system.connect(1);
    system.wait_for("ready", |status| status["ready"] == true);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(system.status()["state"], "Configured");
    let two = system.connect(2);
    system.wait_for("running", |status| status["state"] == "Running" || status["runs"] == 1);
    serve([one, two]);
    let summary = system.end(1);
    assert_eq!((&summary["events"]["complete"], &summary["exit_code"]), (&EVENTS.into(), &0.into()));
}

/// `evbd run` without run control waits for `start_timeout`, and then begins without them.
#[test]
fn a_lone_run_begins_in_the_end_and_says_who_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let ports = evb_needs::free_ports(3);
    let text = format!(
        r#"
[run]
events = 3
[supervisor]
listen = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "10 Hz" }}
start_timeout = "2 s"
deadline = "200 ms"
[[source]]
id = 1
name = "tracker"
input = {{ kind = "tcp", listen = "127.0.0.1:{}" }}
[[builder]]
id = 1
listen = "127.0.0.1:{}"
sink = {{ kind = "null" }}
"#,
        ports[0], ports[1], ports[2]
    );
    let (path, summary) = (dir.path().join("evb.toml"), dir.path().join("summary.json"));
    fs::write(&path, text).unwrap();
    let mut evbd = Command::new(env!("CARGO_BIN_EXE_evbd"));
    let output = evbd.arg("run").arg(path).arg("--quiet").arg("--summary").arg(&summary).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!((output.status.code(), &summary["events"]["incomplete"]), (Some(1), &3.into()), "{summary:#}");
    let said = "source 1 (tracker) had no readout at the start of the run, because none of its front ends was connected: start its readout program, which may join during the run";
    assert!(summary["remarks"].as_array().unwrap().iter().any(|remark| remark == said), "{summary:#}");
}
