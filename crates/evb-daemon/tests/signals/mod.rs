//! Signals to the programs that a test starts.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal, given by its name, to processes.
pub(crate) fn send<'a>(signal: &str, processes: impl IntoIterator<Item = &'a Child>) {
    let signal = match signal {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "KILL" => Signal::KILL,
        "HUP" => Signal::HUP,
        other => panic!("no test sends {other} yet"),
    };
    for child in processes {
        kill_process(Pid::from_child(child), signal).expect("a process of this test");
    }
}
