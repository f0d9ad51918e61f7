//! The connections of `evbd tap`, and the search for taps.

use std::{sync::mpsc::SyncSender, thread::sleep, time::Duration};

use evb_config::{Endpoint, complain};
use evb_file::{
    EventStream, ReadError,
    format::{FileHeader, Record},
};
use serde_json::Value;

use super::TapArguments;
use crate::{
    ctl::{AskError, Client, Streamed, address},
    tap::{CLIENT, COUNTS, EVENTS, TRAILERS},
};

/// Pause between two questions to run control about its taps.
const LOOK: Duration = Duration::from_secs(1);

/// A tap, and this client there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AskedTap {
    pub(super) tap: Endpoint,
    /// Number of this client.
    client: u64,
}

/// A connection to a tap that shows events.
pub(super) struct TapConnection {
    origin: AskedTap,
    streamed: Streamed,
}

/// A part of a stream, as a connection passes it on.
pub(super) enum ShownPart {
    /// The header of a run, and its bytes.
    Header(Box<FileHeader>, Vec<u8>),
    /// A record, and its bytes.
    Event(Box<Record>, Vec<u8>),
    /// Nothing more comes.
    End(TapEnd),
}

/// The end of a stream.
pub(super) struct TapEnd {
    pub(super) origin: AskedTap,
    /// The counts of the events that were seen, sent, sampled out and dropped, if known.
    pub(super) counts: Option<[u64; 4]>,
    /// The reason for which the stream was cut off.
    pub(super) error: Option<ReadError>,
}

/// Returns the taps at the addresses. Waits while run control knows no builder.
pub(super) fn find(arguments: &TapArguments) -> Result<Vec<Endpoint>, String> {
    let mut taps = Vec::new();
    for url in &arguments.urls {
        let at = address(url).map_err(|error| error.to_string())?;
        match client(&at, arguments)?.ask("GET", part_of(COUNTS), None) {
            Ok(_) => taps.push(at),
            Err(AskError::Refused { answer, .. }) if answer["refused_by"] == "the control interface" => {
                taps.append(&mut of_run_control(&at, arguments)?);
            }
            Err(error) => return Err(in_words(&error)),
        }
    }
    Ok(taps)
}

/// Returns the taps of all builders of which run control at this address knows.
fn of_run_control(at: &Endpoint, arguments: &TapArguments) -> Result<Vec<Endpoint>, String> {
    let client =
        Client::new(at.clone(), arguments.token_file.as_deref()).map_err(|error| error.to_string())?;
    let mut is_told = false;
    loop {
        let status = client.ask("GET", "status", None).map_err(|error| error.to_string())?;
        let builders = status["survey"]["builders"].as_array().map_or(&[][..], Vec::as_slice);
        let text = |builder: &Value, key: &str| builder[key].as_str().unwrap_or_default().to_owned();
        let here = || builders.iter().filter(|builder| !text(builder, "listen").is_empty());
        let taps: Vec<Endpoint> = here().filter_map(|builder| text(builder, "tap").parse().ok()).collect();
        if !taps.is_empty() {
            return Ok(taps);
        }
        if here().count() > 0 {
            return Err(format!(
                "run control at {at} knows builders, and none of them has a tap; add for example tap = {{ listen = \"127.0.0.1:7301\" }} to each [[builder]] for the next run"
            ));
        }
        // The operator is told once, before the first wait.
        if !std::mem::replace(&mut is_told, true) {
            complain!("run control at {at} knows no builder yet: waiting for the next run");
        }
        sleep(LOOK);
    }
}

/// Returns a client for a tap.
fn client(tap: &Endpoint, arguments: &TapArguments) -> Result<Client, String> {
    Client::new(tap.clone(), arguments.key_file.as_deref()).map_err(|error| in_words(&error))
}

/// Returns the part of a path of a tap that follows its version.
fn part_of(path: &str) -> &str {
    path.trim_start_matches("/v1/")
}

/// Returns an error of a request to a tap; the words of some are for run control.
fn in_words(error: &AskError) -> String {
    match error {
        AskError::Unreachable { address, reason } => format!(
            "no tap at {address}: {reason}; start evbd there with `tap` in its [[builder]], or give the address of a tap or of run control"
        ),
        AskError::NoAnswer { address, reason } => {
            format!("the tap at {address} gave no answer that can be used: {reason}")
        }
        other => other.to_string(),
    }
}

impl TapConnection {
    /// Asks a tap for its events.
    pub(super) fn open(tap: Endpoint, arguments: &TapArguments) -> Result<Self, String> {
        let mut what = format!("{}?newest={}", part_of(EVENTS), u8::from(arguments.newest));
        if let Some(sample) = arguments.sample {
            what += &format!("&sample={sample}");
        }
        let streamed = client(&tap, arguments)?.open(&what).map_err(|error| in_words(&error))?;
        let client = streamed.header(&CLIENT).and_then(|id| id.parse().ok()).unwrap_or_default();
        Ok(Self { origin: AskedTap { tap, client }, streamed })
    }

    pub(super) fn origin(&self) -> &AskedTap {
        &self.origin
    }

    /// Passes on what the tap shows, to its end or until nobody takes it.
    pub(super) fn show(mut self, to: &SyncSender<ShownPart>) {
        let error = self.pass_on(to).err();
        let trailers = self.streamed.trailers();
        let count = |name: &str| trailers?.get(name)?.to_str().ok()?.parse().ok();
        let counts = all(TRAILERS.map(count));
        // Nobody takes it if enough is written.
        let _ = to.send(ShownPart::End(TapEnd { origin: self.origin, counts, error }));
    }

    /// Passes the header and the events of the stream on, until one side ends.
    fn pass_on(&mut self, to: &SyncSender<ShownPart>) -> Result<(), ReadError> {
        let mut reader = EventStream::new(&mut self.streamed, format!("tap {}", self.origin.tap))?;
        let header = ShownPart::Header(Box::new(reader.header().clone()), reader.header_bytes().to_vec());
        let mut is_wanted = to.send(header).is_ok();
        while is_wanted && let Some(record) = reader.next().transpose()? {
            is_wanted = to.send(ShownPart::Event(Box::new(record), reader.bytes().to_vec())).is_ok();
        }
        Ok(())
    }
}

impl AskedTap {
    /// Returns the counts of the events that were seen, sent, sampled out and dropped, as the tap
    /// has them now.
    pub(super) fn counts(&self, arguments: &TapArguments) -> Option<[u64; 4]> {
        let answer = client(&self.tap, arguments).ok()?.ask("GET", part_of(COUNTS), None).ok()?;
        let own = answer["clients"].as_array()?.iter().find(|client| client["id"] == self.client)?;
        all(["seen", "sent", "sampled_out", "dropped"].map(|key| own[key].as_u64()))
    }
}

fn all([seen, sent, sampled_out, dropped]: [Option<u64>; 4]) -> Option<[u64; 4]> {
    Some([seen?, sent?, sampled_out?, dropped?])
}
