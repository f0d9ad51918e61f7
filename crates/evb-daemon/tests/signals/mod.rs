//! Signals to the programs that a test starts.

#![allow(dead_code)] // not every test program uses every function

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

/// Returns a command that starts evbd with the default dispositions of all signals: a test in the
/// background of a script would hand on that it ignores SIGINT.
pub(crate) fn evbd() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_evbd")]);
    command
}

/// Returns a command that starts evbd; its files may grow to `blocks` blocks of 512 bytes.
pub(crate) fn evbd_with_small_files(blocks: Option<u32>) -> Command {
    let limit = blocks.map(|blocks| format!("ulimit -S -f {blocks}; ")).unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_evbd")]);
    command
}

/// Returns the signal of a name.
pub(crate) fn of(name: &str) -> Signal {
    match name {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "KILL" => Signal::KILL,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        "XCPU" => Signal::XCPU,
        "PWR" => Signal::POWER,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "ALRM" => Signal::ALARM,
        "VTALRM" => Signal::VTALARM,
        "PROF" => Signal::PROF,
        "IO" => Signal::IO,
        "STKFLT" => Signal::STKFLT,
        "PIPE" => Signal::PIPE,
        "XFSZ" => Signal::XFSZ,
        other => panic!("no test sends {other} yet"),
    }
}

/// Sends a signal, given by its name, to processes.
pub(crate) fn send<'a>(signal: &str, processes: impl IntoIterator<Item = &'a Child>) {
    for child in processes {
        kill_process(Pid::from_child(child), of(signal)).expect("a process of this test");
    }
}
