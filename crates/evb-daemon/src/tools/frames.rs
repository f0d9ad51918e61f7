//! `evbd frames`: decodes what a board sent with the declared layout.

mod captured;
mod counted_frames;

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use bytes::BytesMut;
use evb::input::{Capture, Decode, Decoded, Follows, Framing};
use evb_config::{Config, SourceEntry, check::picture};
use evb_core::{fragment::Fragment, id::SourceId};

use self::counted_frames::CountedFrames;
use super::{nothing_done, print};

/// Number of bytes that are read at once.
const READ: usize = 256 << 10;

/// Number of bytes of a frame that are shown.
const SHOWN: usize = 16;

/// Arguments of `evbd frames`.
#[derive(clap::Args, Debug)]
pub(crate) struct FramesArguments {
    /// File with the bytes of the board's stream, for example from `nc 192.168.10.16 24 > FILE`, or
    /// with packets (pcap or pcapng), for example from `tcpdump -s 0 -w FILE`. Packets are used if
    /// the input of the source would take them: those from and to its addresses and ports.
    #[arg(value_name = "FILE")]
    capture: PathBuf,
    /// Configuration with the layout.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Source whose layout is used.
    #[arg(long, value_name = "N")]
    source: u16,
    /// Number of frames that are shown.
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: u64,
}

/// Runs `evbd frames`. Returns 0 if all bytes are frames, 1 if some were skipped, 2 if there is
/// nothing to decode.
pub(crate) fn main(arguments: &FramesArguments) -> ExitCode {
    let config = match evb_config::load(&arguments.config) {
        Ok(loaded) => loaded.config,
        Err(error) => return nothing_done(&error),
    };
    let (entry, framing) = match framing(&config, arguments.source) {
        Ok(found) => found,
        Err(reason) => return nothing_done(&reason),
    };
    match Capture::is_at(arguments.capture.clone()) {
        Ok(false) => {}
        Ok(true) => return captured::decode(arguments, entry),
        Err(error) => return nothing_done(&error),
    }
    let capture = match File::open(&arguments.capture) {
        Ok(capture) => capture,
        Err(error) => {
            let path = arguments.capture.display();
            return nothing_done(&format_args!(
                "cannot read {path}: {error}; give a file with the bytes of the stream"
            ));
        }
    };
    print(|out| Listing::begin(arguments, entry, "at byte", out)?.decode(capture, framing))
}

/// Returns a source and the decoder of its frames.
fn framing(config: &Config, source: u16) -> Result<(&SourceEntry, Framing), String> {
    let entry = config.sources.iter().find(|entry| entry.id == SourceId::new(source));
    let entry =
        entry.ok_or_else(|| format!("the configuration has no source {source}; give one that it has"))?;
    let Some(frame) = entry.input.frame() else {
        return Err(format!(
            "the input of source {source} has no `frame`; declare the layout, or give another source"
        ));
    };
    let framing = Framing::new(frame.clone(), entry.max_fragment).map_err(|error| error.to_string())?;
    Ok((entry, framing))
}

/// The listing of what a board sent.
struct Listing<'o> {
    counted: CountedFrames,
    /// Words for the place of a frame.
    place: &'static str,
    /// Number of frames that are still to be shown.
    show: u64,
    out: &'o mut dyn Write,
}

impl<'o> Listing<'o> {
    /// Begins a listing with the picture of the layout.
    fn begin(
        arguments: &FramesArguments,
        entry: &SourceEntry,
        place: &'static str,
        out: &'o mut dyn Write,
    ) -> io::Result<Self> {
        if let Some(frame) = entry.input.frame() {
            writeln!(out, "{}", picture(frame))?;
        }
        Ok(Self { counted: CountedFrames::new(entry.counter), place, show: arguments.show, out })
    }

    /// Decodes the bytes of a recording to their end, and lists the frames and what was not used.
    fn decode(&mut self, mut capture: impl io::Read, mut framing: Framing) -> io::Result<ExitCode> {
        let (mut bytes, mut piece) = (BytesMut::new(), vec![0; READ]);
        let (mut read, mut follows) = (0, Follows::Bytes);
        let gave_up = loop {
            let offset = read - bytes.len() as u64;
            match framing.decode(&mut bytes, follows) {
                Decoded::Fragment(fragment) => self.note(offset, &fragment)?,
                Decoded::Skipped => {}
                Decoded::Lost => break Some(offset),
                Decoded::Needs(_) | Decoded::Holds(_) if follows == Follows::End => break None,
                Decoded::Needs(_) | Decoded::Holds(_) => {
                    let count = capture.read(&mut piece)?;
                    bytes.extend_from_slice(&piece[..count]);
                    read += count as u64;
                    if count == 0 {
                        follows = Follows::End;
                    }
                }
            }
        };
        self.counted.write(self.out)?;
        let losses = framing.losses();
        writeln!(self.out, "not used  {losses}")?;
        if let Some(offset) = gave_up {
            writeln!(
                self.out,
                "gave up at byte {offset}: no frame was found after it; compare the bytes there with `frame` of the source's input"
            )?;
        }
        Ok(if losses.is_none() && self.counted.count() > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Counts a frame at a place, and shows it if it is one of the first.
    fn note(&mut self, place: u64, fragment: &Fragment) -> io::Result<()> {
        self.counted.add(fragment);
        let Some(rest) = self.show.checked_sub(1) else { return Ok(()) };
        if self.counted.count() == 1 {
            writeln!(
                self.out,
                "{:>12} {:>20} {:>20} {:>9}  begins with",
                self.place, "counter", "clock", "size"
            )?;
        }
        self.show = rest;
        let payload = &fragment.payload;
        let begin: String = payload.iter().take(SHOWN).map(|byte| format!(" {byte:02x}")).collect();
        let (counter, clock) = (fragment.event, fragment.timestamp);
        writeln!(self.out, "{place:>12} {counter:>20} {clock:>20} {:>7} B {begin}", payload.len())
    }
}
