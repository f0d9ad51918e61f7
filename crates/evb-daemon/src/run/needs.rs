//! The needs of this process's roles on this host: files, secrets, devices and a run number.
//! `evbd run` checks them before any role starts, and `evbd check --here` checks them too. Each
//! need that is not met is reported with its line in the configuration.

#[cfg(test)]
mod tests;

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use evb::{
    file::Selection,
    input::{Capture, CaptureError, Replay, ReplayError},
};
use evb_config::{
    Action, Config, ControlConfig, FilterEntry, Hook, Hooks, Input, Origin, Problem, Problems, ReplayFormat,
    Severity, SinkEntry, ViewersEntry,
};
use evb_core::{id::Peer, quantities::split_remedy};
use rustix::fs::Access;

use super::{
    RunError,
    build::{Shared, admission_rule, next_number, state_dir},
};
use crate::control::Token;

/// Returns everything for which `evbd run` would refuse to host these roles on this host, and what
/// the roles would lack later.
pub(crate) fn of_host(config: &Config, origin: &Origin, hosted: &[Peer]) -> Problems {
    let mut look = missing_files(config, origin, hosted);
    let number = || next_number(config, state_dir(config, hosted).as_ref(), None).map(drop);
    if hosted.contains(&Peer::Supervisor) {
        look.at_start(number());
    } else {
        // Without a supervisor that waits for a command, the process would end at once.
        look.severity = Severity::Error;
    }
    look.at_start(Shared::default().prove_host(config, hosted).map(drop));
    Problems::new(origin.clone(), look.list)
}

/// Returns the files and directories that the hosted roles need and that do not exist. The check
/// creates no directory, because a sink must make its directory itself, so that the directory
/// survives a power cut.
pub(super) fn missing(config: &Config, origin: &Origin, hosted: &[Peer]) -> Problems {
    Problems::new(origin.clone(), missing_files(config, origin, hosted).list)
}

/// Returns the files, programs and directories that the hosted roles need and cannot use.
fn missing_files<'a>(config: &Config, origin: &'a Origin, hosted: &[Peer]) -> Look<'a> {
    let mut look = Look { origin, severity: Severity::Error, list: Vec::new() };
    if let Err(error) = admission_rule(&config.security) {
        let text = error.to_string();
        let (reason, remedy) = split_remedy(&text);
        look.refuse("security.key_file", None, reason.to_owned(), remedy.unwrap_or_default());
    }
    if let Some(control) = &config.control {
        if hosted.contains(&Peer::Supervisor) {
            look.at_tokens(control);
        }
        // An operator must provide secrets. Other faults may pass by themselves, such as a disk
        // that is not mounted yet, so run control waits for that.
        look.severity = Severity::Warning;
    }
    for peer in hosted {
        match peer {
            Peer::Supervisor => look.at_journal(config.supervisor.journal.as_deref()),
            Peer::Source(id) => {
                let entry = config.sources.iter().find(|entry| entry.id == *id);
                entry.iter().for_each(|entry| look.at_programs(&entry.hooks, id.number()));
                match entry.map(|entry| &entry.input) {
                    Some(Input::Replay { path, format, .. }) => look.at_replay(path, format, id.number()),
                    Some(Input::Capture { paths, .. }) => look.at_capture(paths, id.number()),
                    Some(Input::Unix { path, .. }) => look.at_socket(path, id.number()),
                    _ => {}
                }
            }
            Peer::Builder(id) => {
                let entry = config.builders.iter().find(|entry| entry.id == *id);
                let directories =
                    entry.iter().flat_map(|entry| &entry.sinks).filter_map(SinkEntry::directory);
                directories.for_each(|path| look.at_sink(path, id.number()));
                if let Some(FilterEntry::Process { command, .. }) = entry.map(|entry| &entry.filter) {
                    look.at_program("builder.filter.command", command, id.number());
                }
                let tap = entry.and_then(|entry| entry.tap.as_ref()?.key_file.as_deref());
                tap.iter().for_each(|path| look.at_tap(path, id.number()));
            }
        }
    }
    look
}

struct Look<'a> {
    origin: &'a Origin,
    /// Severity of the problems that are found next.
    severity: Severity,
    list: Vec<Problem>,
}

impl Look<'_> {
    /// Adds the reason for which a run would not start.
    fn at_start(&mut self, outcome: Result<(), RunError>) {
        match outcome {
            Err(RunError::Unmet { key, reason, remedy }) => self.refuse(key, None, reason, &remedy),
            Err(error) => {
                let remedy = "until that is corrected, `evbd run` does not start";
                self.refuse("", None, error.to_string(), remedy);
            }
            Ok(()) => {}
        }
    }

    /// Looks at the token files of run control.
    fn at_tokens(&mut self, control: &ControlConfig) {
        let viewers = match &control.viewers {
            ViewersEntry::TokenFile(path) => Some(path),
            ViewersEntry::None | ViewersEntry::Anyone => None,
        };
        for (key, path) in [("token_file", control.token_file.as_ref()), ("viewers", viewers)] {
            if let Some(Err(error)) = path.map(|path| Token::read(path)) {
                let remedy =
                    "until that is done, `evbd run` does not start, because run control needs this file";
                self.refuse(&format!("control.{key}"), None, error.to_string(), remedy);
            }
        }
    }

    /// Looks at the key file of a tap.
    fn at_tap(&mut self, key_file: &Path, id: u16) {
        if let Err(error) = Token::read(key_file) {
            let remedy = "until that is done, `evbd run` does not start, because the tap needs this file";
            // Only an operator can provide a secret.
            let severity = std::mem::replace(&mut self.severity, Severity::Error);
            self.refuse("builder.tap.key_file", Some(id), error.to_string(), remedy);
            self.severity = severity;
        }
    }

    /// Looks whether a source can make its Unix socket.
    fn at_socket(&mut self, path: &Path, id: u16) {
        let usable = match fs::symlink_metadata(path) {
            Ok(what) if !what.file_type().is_socket() => {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket has this name"))
            }
            _ => writable(directory_of(path)),
        };
        if let Err(error) = usable {
            let reason = format!("cannot make the socket {}: {error}", path.display());
            let remedy = "give a free path in a directory that exists, and that this user can write to";
            self.refuse("source.input.path", Some(id), reason, remedy);
        }
    }

    fn at_programs(&mut self, hooks: &Hooks, id: u16) {
        for (key, hook) in [("on_start", &hooks.on_start), ("on_stop", &hooks.on_stop)] {
            let Some(Hook { action: Action::Run(words), .. }) = hook else { continue };
            self.at_program(&format!("source.input.{key}.run"), words, id);
        }
    }

    /// Looks whether a program can be executed.
    fn at_program(&mut self, key: &str, words: &[String], id: u16) {
        let Some(name) = words.first() else { return };
        let Err(error) = executable(Path::new(name)) else { return };
        let reason = format!("cannot run {}: {error}", name.escape_debug());
        let remedy = "give the path of a program that this user can execute (`chmod +x`), or a name that is found in PATH";
        // Only an operator can provide a program.
        let severity = std::mem::replace(&mut self.severity, Severity::Error);
        self.refuse(key, Some(id), reason, remedy);
        self.severity = severity;
    }

    /// Looks whether a recording can be read and has the configured format.
    fn at_replay(&mut self, path: &Path, format: &ReplayFormat, id: u16) {
        // A pipe is not opened: its writer would get a broken pipe when the check closes it.
        let is_pipe = |what: &fs::Metadata| !what.is_file() && !what.is_dir();
        let readable = fs::metadata(path).and_then(|what| match format {
            ReplayFormat::Km3net { .. } if what.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            _ if is_pipe(&what) => Ok(false),
            _ => File::open(path).map(|_| true),
        });
        let (reason, remedy) = match readable {
            Ok(false) => return,
            Ok(true) => match begins(path, format) {
                Ok(()) => return,
                Err(error) => (error.to_string(), "give a recording of this `format`"),
            },
            Err(error) => (
                format!("cannot read {}: {error}", path.display()),
                "give a file that this user can read; a relative path starts at the current directory",
            ),
        };
        self.refuse("source.input.path", Some(id), reason, remedy);
    }

    /// Looks whether the files of a capture are captures.
    fn at_capture(&mut self, paths: &[PathBuf], id: u16) {
        let key = if paths.len() == 1 { "source.input.path" } else { "source.input.paths" };
        for path in paths {
            let error = match Capture::is_at(path.clone()) {
                Ok(true) => continue,
                Ok(false) => CaptureError::NoCapture { path: path.clone() },
                Err(error) => error,
            };
            let text = error.to_string();
            let (reason, remedy) = split_remedy(&text);
            self.refuse(key, Some(id), reason.to_owned(), remedy.unwrap_or_default());
        }
    }

    /// Looks whether a sink can write to its directory, or make it.
    fn at_sink(&mut self, path: &Path, id: u16) {
        let named = |ancestor: &&Path| !ancestor.as_os_str().is_empty();
        let there = path.ancestors().filter(named).find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
        if let Err(error) = writable(there.unwrap_or_else(|| Path::new("."))) {
            let reason = format!("cannot write event files to {}: {error}", path.display());
            let remedy = "give a directory that this user can make or write to";
            self.refuse("builder.sink.path", Some(id), reason, remedy);
        }
    }

    /// Looks whether the journal can be written.
    fn at_journal(&mut self, path: Option<&Path>) {
        let Some(path) = path else { return };
        // The journal may be a symbolic link: its file is created at the target of the link.
        let led = fs::read_link(path).ok().and_then(|to| Some(path.parent()?.join(to)));
        let path = led.as_deref().unwrap_or(path);
        let usable = if path.exists() {
            File::options().append(true).read(true).open(path).map(drop)
        } else {
            writable(directory_of(path))
        };
        if let Err(error) = usable {
            let reason = format!("cannot keep the journal {}: {error}", path.display());
            let remedy = "give a file in a directory that is there, and that this user can write to";
            self.refuse("supervisor.journal", None, reason, remedy);
        }
    }

    /// Adds a problem to the list.
    fn refuse(&mut self, key: &str, id: Option<u16>, reason: String, remedy: &str) {
        self.list.push(Problem {
            severity: self.severity,
            key: key.to_owned(),
            span: self.origin.span_of(key, id),
            reason,
            remedy: remedy.to_owned(),
        });
    }
}

/// Reads the beginning of a recording, in the way in which the run reads all of it.
fn begins(path: &Path, format: &ReplayFormat) -> Result<(), ReplayError> {
    match format {
        ReplayFormat::Km3net { .. } => Replay::check_km3net(path),
        ReplayFormat::Evb { run, .. } => {
            Replay::check_recorded(path, &Selection { run: run.clone(), ..Selection::default() })
        }
    }
}

/// Succeeds if this user can execute the program, which is searched in `PATH` if it is a bare name.
fn executable(program: &Path) -> io::Result<()> {
    let is_program = |path: &Path| {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        Ok(rustix::fs::access(path, Access::EXEC_OK)?)
    };
    if program.is_absolute() {
        return is_program(program);
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).any(|directory| is_program(&directory.join(program)).is_ok());
    let fault = || io::Error::new(io::ErrorKind::NotFound, "no directory of PATH has such a program");
    found.then_some(()).ok_or_else(fault)
}

/// Returns the directory in which a file of this path is.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Succeeds if the kernel lets this user create files in `directory`. The kernel considers
/// permissions, privileges, and read-only mounts.
fn writable(directory: &Path) -> io::Result<()> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}
