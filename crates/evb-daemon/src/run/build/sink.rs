//! Sinks as configured.

use evb::sink::{FanOut, FileSink, NullSink, SocketSink};
use evb_config::{BuilderEntry, ConsumerAddress, Fsync, SinkEntry};
use evb_file::{FsyncPolicy, WriterOptions};

use crate::hooks::Hooks;

/// Returns the sinks that a configuration names.
pub(super) fn from_config(entry: &BuilderEntry, hooks: &Hooks) -> FanOut {
    entry.sinks.iter().fold(FanOut::default(), |sinks, sink| match sink {
        SinkEntry::Null => sinks.required(NullSink),
        SinkEntry::File { path, rotate, fsync, required } => {
            let fsync = match fsync {
                Fsync::None => FsyncPolicy::None,
                Fsync::Commit => FsyncPolicy::Commit,
            };
            let options = WriterOptions { rotate_at: *rotate, fsync, ..WriterOptions::default() };
            let (id, name) = (entry.id, entry.name.clone().unwrap_or_default());
            let hooks = hooks.clone();
            let files = FileSink::new(path, options);
            let files = files.on_closed(move |file| hooks.tell_closed(id, &name, &file));
            if *required { sinks.required(files) } else { sinks.optional(files) }
        }
        SinkEntry::Socket { address, timeout, required } => {
            let socket = match address {
                ConsumerAddress::Tcp(address) => SocketSink::tcp(address.to_string()),
                ConsumerAddress::Unix(path) => SocketSink::unix(path),
            };
            let socket = socket.with_timeout(*timeout);
            if *required { sinks.required(socket) } else { sinks.optional(socket) }
        }
    })
}
