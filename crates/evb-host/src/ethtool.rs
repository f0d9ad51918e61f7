//! What a network device is set to, as its driver tells (the questions of ethtool(8)).

#[cfg(test)]
mod tests;

use evb_core::units::Rate;

use evb_net::host::{Fact, Unavailable, ask_driver as ask};

/// Commands and string sets of linux/ethtool.h.
mod number {
    pub(super) const DRIVER: u32 = 0x03;
    pub(super) const COALESCING: u32 = 0x0e;
    pub(super) const RINGS: u32 = 0x10;
    pub(super) const PAUSE: u32 = 0x12;
    pub(super) const STRINGS: u32 = 0x1b;
    pub(super) const STATISTICS: u32 = 0x1d;
    pub(super) const STRING_SETS: u32 = 0x37;
    pub(super) const FEATURES: u32 = 0x3a;
    pub(super) const LINK_SETTINGS: u32 = 0x4c;
    pub(super) const STATISTICS_SET: u32 = 1;
    pub(super) const FEATURES_SET: u32 = 4;
}

/// Most strings in an answer: half of the number that its room holds.
const MOST_STRINGS: usize = 16_000;
/// `ETH_GSTRING_LEN`, in words.
const STRING_WORDS: usize = 32 / 4;

/// Speed and duplex mode of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its rate, in line bytes; `None` where the driver does not know.
    pub rate: Option<Rate>,
    /// True if both ends may send at the same time; `None` where the driver does not know.
    pub full_duplex: Option<bool>,
}

/// Interrupt coalescing of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds that a received packet may wait.
    pub receive_micros: u32,
    /// Packets after which it does not.
    pub receive_packets: u32,
    /// Microseconds that the report of a sent packet may wait.
    pub send_micros: u32,
    /// Packets after which it does not.
    pub send_packets: u32,
    /// True if the driver adapts the receive side to the load.
    pub adaptive_receive: bool,
    /// True if the driver adapts the send side to the load.
    pub adaptive_send: bool,
}

/// Sizes of the device's rings in packets, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Packets that the receive ring holds.
    pub receive: u32,
    /// Packets that the receive ring can hold at most.
    pub receive_most: u32,
    /// Packets that the send ring holds.
    pub send: u32,
    /// Packets that the send ring can hold at most.
    pub send_most: u32,
}

/// Ethernet pause (IEEE 802.3x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// True if both settings are negotiated with the other end, so that the agreement counts
    /// instead of these.
    pub negotiated: bool,
    /// True if the device stops when the other end asks.
    pub obeys: bool,
    /// True if the device asks the other end to stop.
    pub asks: bool,
}

/// An offload of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// True if the feature is in use.
    pub on: bool,
    /// True if the feature cannot be changed.
    pub fixed: bool,
}

/// The offloads that matter to trains of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// The device cuts TCP trains into packets (`tx-tcp-segmentation`).
    pub tso: Feature,
    /// The kernel cuts them, as late as it can (`tx-generic-segmentation`).
    pub gso: Feature,
    /// The kernel joins received packets into trains (`rx-gro`).
    pub gro: Feature,
    /// The device cuts UDP trains (`tx-udp-segmentation`); kernels before 4.18 do not know it.
    pub udp: Option<Feature>,
}

/// The name of the device's driver.
///
/// # Errors
/// The driver does not say.
pub fn driver(device: &str) -> Fact<String> {
    let answer = ask(device, &[number::DRIVER])?;
    Ok(string(&answer[1..9]))
}

/// Rate and duplex of the line.
///
/// # Errors
/// The driver does not say.
pub fn line(device: &str) -> Fact<Line> {
    // A request without room for lists of modes is answered with nothing but the room that the
    // kernel wants, as a negative number.
    let answer = ask(device, &[number::LINK_SETTINGS])?;
    let words = answer[3].to_ne_bytes()[3].cast_signed();
    if words >= 0 {
        return Err(Unavailable::new("the driver's answer cannot be read"));
    }
    let room = u32::from_ne_bytes([0, 0, 0, words.unsigned_abs()]);
    let answer = ask(device, &[number::LINK_SETTINGS, 0, 0, room])?;
    Ok(line_of(answer[1], answer[2].to_ne_bytes()[0]))
}

/// Returns the line's speed and mode. `SPEED_UNKNOWN` and `DUPLEX_UNKNOWN` are all ones; some
/// drivers report 0 Mbit/s where there is no cable.
fn line_of(megabits: u32, duplex: u8) -> Line {
    let known = megabits != 0 && megabits != u32::MAX;
    Line {
        rate: known.then(|| Rate::from_bits_per_second(u64::from(megabits) * 1_000_000)),
        full_duplex: match duplex {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    }
}

/// Reads the interrupt coalescing of a device.
///
/// # Errors
/// The driver does not say.
pub fn coalescing(device: &str) -> Fact<Coalescing> {
    let answer = ask(device, &[number::COALESCING])?;
    Ok(Coalescing {
        receive_micros: answer[1],
        receive_packets: answer[2],
        send_micros: answer[5],
        send_packets: answer[6],
        adaptive_receive: answer[10] != 0,
        adaptive_send: answer[11] != 0,
    })
}

/// The sizes of the device's rings.
///
/// # Errors
/// The driver does not say.
pub fn rings(device: &str) -> Fact<Rings> {
    let answer = ask(device, &[number::RINGS])?;
    Ok(Rings { receive_most: answer[1], send_most: answer[4], receive: answer[5], send: answer[8] })
}

/// Ethernet pause.
///
/// # Errors
/// The driver does not say.
pub fn pause(device: &str) -> Fact<Pause> {
    let answer = ask(device, &[number::PAUSE])?;
    Ok(Pause { negotiated: answer[1] != 0, obeys: answer[2] != 0, asks: answer[3] != 0 })
}

/// The driver's counters whose names speak of pause, where they are not zero.
///
/// # Errors
/// The driver does not say.
pub fn pause_counters(device: &str) -> Fact<Vec<(String, u64)>> {
    let names = strings(device, number::STATISTICS_SET)?;
    let request = [number::STATISTICS, u32::try_from(names.len()).unwrap_or(0)];
    let answer = ask(device, &request)?;
    let values = answer[2..].chunks_exact(2).map(|words| {
        let [low, high] = [words[0].to_ne_bytes(), words[1].to_ne_bytes()];
        let [a, b, c, d] = low;
        let [e, f, g, h] = high;
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    });
    let speaks = |name: &str| ["pause", "xoff", "pfc"].iter().any(|word| name.contains(word));
    Ok(names.into_iter().zip(values).filter(|(name, value)| *value > 0 && speaks(name)).collect())
}

/// The offloads that matter to trains of packets.
///
/// # Errors
/// The kernel does not say.
pub fn offloads(device: &str) -> Fact<Offloads> {
    let names = strings(device, number::FEATURES_SET)?;
    let blocks = names.len().div_ceil(32);
    let answer = ask(device, &[number::FEATURES, u32::try_from(blocks).unwrap_or(0)])?;
    let of = |name: &str| {
        let at = names.iter().position(|other| other == name)?;
        feature(answer.get(2..2 + blocks * 4)?, at)
    };
    let need =
        |name: &str| of(name).ok_or_else(|| Unavailable::new(format!("this kernel does not know {name}")));
    Ok(Offloads {
        tso: need("tx-tcp-segmentation")?,
        gso: need("tx-generic-segmentation")?,
        gro: need("rx-gro")?,
        udp: of("tx-udp-segmentation"),
    })
}

/// Bit `at` of the blocks {available, requested, active, never changed} of 32 features each.
fn feature(blocks: &[u32], at: usize) -> Option<Feature> {
    let block = blocks.get(at / 32 * 4..at / 32 * 4 + 4)?;
    let is = |word: u32| word >> (at % 32) & 1 == 1;
    Some(Feature { on: is(block[2]), fixed: !is(block[0]) || is(block[3]) })
}

/// The names of a set.
fn strings(device: &str, set: u32) -> Fact<Vec<String>> {
    let [low, high] = if cfg!(target_endian = "little") { [1 << set, 0] } else { [0, 1 << set] };
    let answer = ask(device, &[number::STRING_SETS, 0, low, high])?;
    // The kernel clears the bit of a set that the device does not have.
    let count = if answer[2] | answer[3] == 0 { 0 } else { answer[4] as usize };
    if count == 0 || count > MOST_STRINGS {
        return Err(Unavailable::new(format!(
            "the driver lists {count} names, which is not a possible number"
        )));
    }
    let answer = ask(device, &[number::STRINGS, set, count as u32])?;
    let count = count.min(answer[2] as usize);
    Ok(answer[3..].chunks_exact(STRING_WORDS).take(count).map(string).collect())
}

/// The text up to its first zero.
fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
