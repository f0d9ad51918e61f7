//! The output of `evbd tap`.

use std::{
    io::{self, BufWriter, Stdout, Write as _},
    sync::mpsc::{Receiver, TryRecvError},
};

use evb_core::id::RunId;
use evb_file::{
    StreamEncoder,
    format::{FileHeader, Record},
};

use super::connection::{ShownPart, TapEnd};

/// Writes the streams of one or several taps as one.
pub(super) struct Writer {
    out: BufWriter<Stdout>,
    /// True if the records of several builders become one stream.
    is_merged: bool,
    run: Option<RunId>,
    /// The encoder of a merged stream, once a header is written.
    encoder: Option<StreamEncoder>,
    /// Number of events to write; `None`: all.
    left: Option<u64>,
}

impl Writer {
    pub(super) fn new(is_merged: bool, events: Option<u64>) -> Self {
        Self { out: BufWriter::new(io::stdout()), is_merged, run: None, encoder: None, left: events }
    }

    /// Writes what the connections show, until all have ended or enough events are written.
    /// Returns the ends of all streams.
    pub(super) fn write(mut self, shown: &Receiver<ShownPart>) -> io::Result<Vec<TapEnd>> {
        let mut ends = Vec::new();
        while self.left != Some(0) {
            let next = match shown.try_recv() {
                // A reader of the output need not wait for more than has come.
                Err(TryRecvError::Empty) => {
                    self.out.flush()?;
                    shown.recv().ok()
                }
                next => next.ok(),
            };
            match next {
                Some(ShownPart::Header(header, bytes)) => self.header(&header, &bytes)?,
                Some(ShownPart::Event(record, bytes)) => self.event(&record, bytes)?,
                Some(ShownPart::End(end)) => ends.push(end),
                None => break,
            }
        }
        self.out.flush()?;
        Ok(ends)
    }

    /// Writes the header of the first tap; the others must be of the same run.
    fn header(&mut self, header: &FileHeader, bytes: &[u8]) -> io::Result<()> {
        let first_run = *self.run.get_or_insert(header.run_id);
        if first_run != header.run_id {
            return Err(io::Error::other(
                "the taps show different runs, which make no single stream; give taps of builders of one system",
            ));
        }
        if self.encoder.is_some() {
            return Ok(());
        }
        let encoder = self.encoder.insert(StreamEncoder::merged(header));
        match self.is_merged {
            true => self.out.write_all(&encoder.header()),
            false => self.out.write_all(bytes),
        }
    }

    fn event(&mut self, record: &Record, mut bytes: Vec<u8>) -> io::Result<()> {
        if let Some(encoder) = self.encoder.as_ref().filter(|_| self.is_merged) {
            encoder.adopt(record, &mut bytes);
        }
        self.left = self.left.map(|left| left - 1);
        self.out.write_all(&bytes)
    }
}
