//! The declared layouts of frames, as pictures of their bytes.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use evb_core::{
    framing::{ByteOrder, Extent, FrameField, FrameLayout, Kept, LengthCounts},
    quantities::counted,
};

use crate::{Config, ranges};

/// Number of bytes in a row of a picture.
const ROW: usize = 8;

/// Draws the layouts of all sources that have one; equal layouts are drawn once. Empty if there are
/// none.
pub(super) fn frames(config: &Config) -> String {
    let mut drawn: Vec<(&FrameLayout, bool, Vec<u16>)> = Vec::new();
    for source in &config.sources {
        let Some(frame) = source.input.frame() else { continue };
        let (has_clock, id) = (source.clock.is_some(), source.id.number());
        match drawn.iter_mut().find(|(known, clock, _)| *known == frame && *clock == has_clock) {
            Some((.., ids)) => ids.push(id),
            None => drawn.push((frame, has_clock, vec![id])),
        }
    }
    let mut page = String::new();
    for (frame, has_clock, ids) in drawn {
        let of = if ids.len() == 1 { "source" } else { "sources" };
        let _ = write!(page, "\nFrame of {of} {}\n{}", ranges(ids.into_iter()), picture(frame));
        let _ = writeln!(page, "  {}", protection(frame, has_clock));
    }
    page
}

/// Says what protects the frames of a board from getting into wrong events.
fn protection(frame: &FrameLayout, has_clock: bool) -> &'static str {
    match (frame.counter.is_some(), has_clock) {
        (true, true) => "lost frames are found by the counter, and confirmed by the clock",
        (true, false) => "lost frames are found by the counter",
        (false, true) => {
            "frames count as events in the order in which they arrive, and the clock finds lost ones"
        }
        (false, false) => {
            "not protected: there is neither counter nor clock, so that a lost frame shifts all later ones into wrong events; declare the one that the board sends"
        }
    }
}

/// Returns the letter of a field.
fn letter(key: &str) -> char {
    match key {
        "magic" => 'M',
        "length" => 'L',
        "counter" => 'N',
        "number" | "offset" => 'P',
        "count" | "total" => 'C',
        "last" => 'E',
        _ => 'T',
    }
}

/// Draws a frame: a row for every eight bytes of the header, what follows, and a legend.
pub fn picture(frame: &FrameLayout) -> String {
    let header = frame.header as usize;
    let mut page = format!("  {:>6}", "byte");
    (0..ROW).for_each(|column| page += &format!(" {:>3}", format!("+{column}")));
    page.push('\n');
    let mut is_cut = false;
    for start in (0..header).step_by(ROW) {
        let cells: Vec<String> = (start..header.min(start + ROW)).map(|offset| cell(frame, offset)).collect();
        let is_empty = cells.iter().all(|cell| cell == ".");
        // A long header has few fields, so of several empty rows only the first is drawn.
        if is_empty && std::mem::replace(&mut is_cut, is_empty) {
            continue;
        }
        is_cut = is_empty;
        let _ = write!(page, "  {start:>6}");
        cells.iter().for_each(|cell| page += &format!(" {cell:>3}"));
        page.push('\n');
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let payload = match &frame.extent {
        Extent::Fixed(payload) => format!("payload of {payload} B"),
        Extent::Stated { counted: LengthCounts::Tail, .. } => {
            "other bytes, then the payload at the end of the datagram".to_owned()
        }
        Extent::Stated { .. } => "payload".to_owned(),
        Extent::Datagram => "payload, up to the end of the datagram".to_owned(),
        Extent::Delimited(delimiter) => format!("payload, up to and with {}", hex(delimiter)),
    };
    let _ = writeln!(page, "  {header:>6}   {payload}");
    if frame.trailer > 0 {
        let end =
            if frame.end.is_empty() { String::new() } else { format!(", the last ones {}", hex(&frame.end)) };
        let _ = writeln!(page, "  {:>6}   trailer of {} B{end}", "", frame.trailer);
    }
    if frame.align > 1 {
        let _ = writeln!(page, "  {:>6}   padding to a multiple of {} B", "", frame.align);
    }
    if let Some(magic) = &frame.magic {
        let mask = if magic.mask.iter().all(|mask| *mask == 0xff) {
            String::new()
        } else {
            format!(", of which {} count", hex(&magic.mask))
        };
        let _ = writeln!(page, "  M magic {}{mask}", hex(&magic.value));
    }
    for (key, field) in frame.fields() {
        let _ = writeln!(page, "  {} {}, {}", letter(key), key, words(frame, key, field));
    }
    let kept = match frame.keep {
        _ if frame.packets.is_some() => "the payloads of all packets with one counter are the fragment",
        Kept::Frame => "the whole frame without padding is the fragment",
        Kept::Payload => "the payload is the fragment",
    };
    let _ = writeln!(page, "  {kept}");
    page
}

/// Returns the letters of the fields that have bits of a byte.
fn cell(frame: &FrameLayout, offset: usize) -> String {
    let is_magic = frame.magic.as_ref().is_some_and(|magic| magic.bits_at(offset) != 0);
    let fields = frame.fields().filter(|(_, field)| field.bits_at(offset) != 0).map(|(key, _)| letter(key));
    let letters: String = is_magic.then_some('M').into_iter().chain(fields).collect();
    if letters.is_empty() { ".".to_owned() } else { letters }
}

/// Describes a field.
fn words(frame: &FrameLayout, key: &str, field: &FrameField) -> String {
    let order = match field.order {
        _ if field.bytes == 1 => "",
        ByteOrder::Big => ", big-endian",
        ByteOrder::Little => ", little-endian",
    };
    let mut words = format!("{}{order}", counted(u64::from(field.width()), "bit"));
    if key == "length"
        && let Extent::Stated { unit, counted, .. } = &frame.extent
    {
        words += match counted {
            LengthCounts::Payload | LengthCounts::Tail => ", counts the payload",
            LengthCounts::Frame => ", counts header, payload and trailer",
            LengthCounts::Rest => ", counts everything behind it",
        };
        words += &if *unit == 1 { " in bytes".to_owned() } else { format!(" in units of {unit} B") };
    }
    words
}
