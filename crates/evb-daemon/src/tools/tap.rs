//! `evbd tap`: writes the events that taps show to standard output.

mod connection;
mod writer;

use std::{io, path::PathBuf, process::ExitCode, sync::mpsc::sync_channel, thread};

use evb_config::complain;

use super::nothing_done;
use connection::{AskedTap, TapConnection, TapEnd, find};
use writer::Writer;

/// Number of records between the connections and standard output.
const WAITING: usize = 64;

/// Arguments of `evbd tap`.
#[derive(clap::Args, Debug)]
pub(crate) struct TapArguments {
    /// Addresses of taps, or of run control, which knows the taps of all builders.
    #[arg(required = true, value_name = "http://HOST:PORT")]
    urls: Vec<String>,
    /// Share of the events, for example 0.01; without this option, as many as the tap allows.
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Only the newest event whenever the next one can be written.
    #[arg(long)]
    newest: bool,
    /// File with the key of the taps, if they require one.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with the token of run control, if it requires one.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// End after this number of events.
    #[arg(long, value_name = "N")]
    events: Option<u64>,
}

/// Runs `evbd tap`. Returns 0 if everything that was asked for is in the output, 1 if a stream was
/// cut off, 2 if nothing could be shown.
pub(crate) fn main(arguments: &TapArguments) -> ExitCode {
    let connections = find(arguments).and_then(|taps| {
        taps.into_iter().map(|tap| TapConnection::open(tap, arguments)).collect::<Result<Vec<_>, _>>()
    });
    let connections = match connections {
        Ok(connections) => connections,
        Err(error) => return nothing_done(&error),
    };
    let (show, shown) = sync_channel(WAITING);
    let origins: Vec<AskedTap> = connections.iter().map(|connection| connection.origin().clone()).collect();
    for connection in connections {
        let show = show.clone();
        // It ends with its stream, or with this process.
        thread::spawn(move || connection.show(&show));
    }
    drop(show);
    match Writer::new(origins.len() > 1, arguments.events).write(&shown) {
        Ok(ends) => {
            let is_whole = ends.iter().all(|end| end.error.is_none());
            origins.iter().for_each(|origin| tell(origin, &ends, arguments));
            if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain!("error: the output of `evbd tap` ends here: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what became of the events at a tap.
fn tell(origin: &AskedTap, ends: &[TapEnd], arguments: &TapArguments) {
    let (tap, end) = (&origin.tap, ends.iter().find(|end| end.origin == *origin));
    if let Some(error) = end.and_then(|end| end.error.as_ref()) {
        complain!("error: {error}; what came before is in the output: ask again while a run goes on");
    }
    // The tap still has this client if enough events are written.
    let counts = end.map_or_else(|| origin.counts(arguments), |end| end.counts);
    match counts {
        Some([seen, sent, sampled_out, dropped]) => complain!(
            "tap {tap}: {seen} events seen, {sent} sent, {sampled_out} sampled out, {dropped} dropped because they came faster than they were taken"
        ),
        None => complain!("tap {tap}: what became of the events is not known"),
    }
}
