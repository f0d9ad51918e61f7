//! Checks, before any role starts, that the files exist that the roles of this process need. Each
//! missing file is reported with its line in the configuration.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use evb_config::{Config, Input, Origin, Problem, Problems, ReplayFormat, Severity, SinkEntry};
use evb_core::id::Peer;
use rustix::fs::Access;

/// Returns the files and directories that the hosted roles need and that do not exist. The check
/// creates no directory, because a sink must make its directory itself, so that the directory
/// survives a power cut.
pub(super) fn missing(config: &Config, origin: &Origin, hosted: &[Peer]) -> Problems {
    let mut look = Look { origin, list: Vec::new() };
    if let Err(error) = config.security.load() {
        let remedy = "`evbd keygen FILE` makes a key file; all peers need a copy of it, which only their users can read";
        look.refuse("security.key_file", None, error.to_string(), remedy);
    }
    for peer in hosted {
        match peer {
            Peer::Supervisor => look.at_journal(config.supervisor.journal.as_deref()),
            Peer::Source(id) => {
                let entry = config.sources.iter().find(|entry| entry.id == *id);
                if let Some(Input::Replay { path, format, .. }) = entry.map(|entry| &entry.input) {
                    look.at_replay(path, format, id.number());
                }
            }
            Peer::Builder(id) => {
                let entry = config.builders.iter().find(|entry| entry.id == *id);
                if let Some(SinkEntry::File { path, .. }) = entry.map(|entry| &entry.sink) {
                    look.at_sink(path, id.number());
                }
            }
        }
    }
    Problems::new(origin.clone(), look.list)
}

struct Look<'a> {
    origin: &'a Origin,
    list: Vec<Problem>,
}

impl Look<'_> {
    fn at_replay(&mut self, path: &Path, format: &ReplayFormat, id: u16) {
        // A pipe is not opened: its writer would get a broken pipe when the check closes it.
        let readable = fs::metadata(path).and_then(|what| match format {
            ReplayFormat::Km3net { .. } if what.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            _ if what.is_file() || what.is_dir() => File::open(path).map(drop),
            _ => Ok(()),
        });
        if let Err(error) = readable {
            let reason = format!("cannot read {}: {error}", path.display());
            let remedy =
                "give a file that this user can read; a relative path starts at the current directory";
            self.refuse("source.input.path", Some(id), reason, remedy);
        }
    }

    fn at_sink(&mut self, path: &Path, id: u16) {
        let named = |ancestor: &&Path| !ancestor.as_os_str().is_empty();
        let there = path.ancestors().filter(named).find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
        if let Err(error) = writable(there.unwrap_or_else(|| Path::new("."))) {
            let reason = format!("cannot write event files to {}: {error}", path.display());
            let remedy = "give a directory that this user can make or write to";
            self.refuse("builder.sink.path", Some(id), reason, remedy);
        }
    }

    fn at_journal(&mut self, path: Option<&Path>) {
        let Some(path) = path else { return };
        // The journal may be a symbolic link: its file is created at the target of the link.
        let led = fs::read_link(path).ok().and_then(|to| Some(path.parent()?.join(to)));
        let path = led.as_deref().unwrap_or(path);
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let usable = if path.exists() {
            File::options().append(true).read(true).open(path).map(drop)
        } else {
            writable(directory.unwrap_or_else(|| Path::new(".")))
        };
        if let Err(error) = usable {
            let reason = format!("cannot keep the journal {}: {error}", path.display());
            let remedy = "give a file in a directory that is there, and that this user can write to";
            self.refuse("supervisor.journal", None, reason, remedy);
        }
    }

    fn refuse(&mut self, key: &str, id: Option<u16>, reason: String, remedy: &str) {
        self.list.push(Problem {
            severity: Severity::Error,
            key: key.to_owned(),
            span: self.origin.span_of(key, id),
            reason,
            remedy: remedy.to_owned(),
        });
    }
}

/// Succeeds if the kernel lets this user create files in `directory`. The kernel considers
/// permissions, privileges, and read-only mounts.
fn writable(directory: &Path) -> io::Result<()> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}
