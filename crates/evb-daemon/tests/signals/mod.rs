//! Signals to the programs that a test starts.

use std::process::{Child, Command};

/// Sends a signal, given by its name, to processes. The shell has `kill` built in; a program of
/// that name is not on every machine.
pub(crate) fn send<'a>(signal: &str, processes: impl IntoIterator<Item = &'a Child>) {
    let ids = processes.into_iter().map(|child| child.id().to_string());
    let status = Command::new("sh").args(["-c", "kill \"$@\"", "kill", "-s", signal]).args(ids).status();
    assert!(status.expect("a shell").success(), "kill -s {signal}");
}
