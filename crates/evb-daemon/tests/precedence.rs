//! A supervisor that is alone in its process takes precedence over other threads on its core if the
//! builders of its run do.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use evb_needs::{Missing, skip};
use evb_net::host::{PRECEDENCE, Precedence, take_precedence};

/// A process that is killed at the end of the test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns `nice` and the real-time priority of a process's first thread: the 19th and 40th field
/// of the line that proc(5) describes.
fn standing(process: u32) -> (i64, i64) {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[19 - 3].parse().unwrap(), fields[40 - 3].parse().unwrap())
}

fn supervisor(network: &str, roles: &[&str], expects_more: bool) -> (i64, i64) {
    let dir = tempfile::tempdir().unwrap();
    let ports = evb_needs::free_ports(2);
    let text = format!(
        "{network}\n[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = \"null\"\n",
        ports[0], ports[1]
    );
    fs::write(dir.path().join("evb.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.current_dir(dir.path()).args(["run", "--quiet", "evb.toml"]).stderr(Stdio::null());
    command.args(roles.iter().flat_map(|role| ["--role", role]));
    let child = Guarded(command.spawn().unwrap());
    let limit = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", ports[0])).is_err() {
        assert!(Instant::now() < limit, "the supervisor listens");
        thread::sleep(Duration::from_millis(10));
    }
    // The supervisor listens before it takes precedence; on a busy machine, much time may pass in
    // between.
    let patience = Instant::now() + Duration::from_millis(if expects_more { 10_000 } else { 300 });
    while Instant::now() < patience
        && (!expects_more || standing(child.0.id()) == standing(std::process::id()))
    {
        thread::sleep(Duration::from_millis(10));
    }
    standing(child.0.id())
}

#[test]
fn a_supervisor_alone_goes_before_others_where_its_builders_do() {
    const QUICK: &str = "[network]\nlink_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"";
    let own = standing(std::process::id());
    let urgent = match thread::spawn(take_precedence).join().unwrap() {
        Ok(Precedence::RealTime) => (own.0, 1),
        Ok(Precedence::Nice) => (PRECEDENCE.into(), 0),
        Err(error) => return skip(&Missing::new("the right to take precedence").because(error)),
    };
    assert_eq!(supervisor(QUICK, &["supervisor"], true), urgent);
    assert_eq!(supervisor("", &["supervisor"], false), own, "no port is known that would wait");
    assert_eq!(
        supervisor(QUICK, &["supervisor", "source:1"], false),
        own,
        "the source would go before others too"
    );
}
