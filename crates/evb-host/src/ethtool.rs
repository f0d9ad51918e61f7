//! The settings of a network device as its driver reports them, with the requests of ethtool(8).

#[cfg(test)]
mod tests;

use evb_core::units::Rate;

use evb_net::host::{Fact, Unavailable, ask_driver as ask};

/// Numbers of the commands and string sets from linux/ethtool.h.
mod number {
    pub(super) const DRIVER: u32 = 0x03;
    pub(super) const COALESCING: u32 = 0x0e;
    pub(super) const SET_COALESCING: u32 = 0x0f;
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

/// Largest number of strings that are accepted in an answer: half of the number that the answer's
/// buffer can hold.
const MOST_STRINGS: usize = 16_000;
/// Length of each string (`ETH_GSTRING_LEN`) in 32-bit words.
const STRING_WORDS: usize = 32 / 4;

/// Speed and duplex mode of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate of the line in line bytes; `None` if the driver does not know the rate.
    pub rate: Option<Rate>,
    /// True if both ends may send at the same time; `None` if the driver does not know the duplex
    /// mode.
    pub full_duplex: Option<bool>,
}

/// Interrupt coalescing of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Longest time in microseconds for which the interrupt of a received packet may be delayed.
    pub receive_micros: u32,
    /// Number of received packets that cause an interrupt without further delay.
    pub receive_packets: u32,
    /// Longest time in microseconds for which the interrupt that reports a sent packet may be
    /// delayed.
    pub send_micros: u32,
    /// Number of sent packets that cause an interrupt without further delay.
    pub send_packets: u32,
    /// True if the driver adapts the receive delays to the load.
    pub adaptive_receive: bool,
    /// True if the driver adapts the send delays to the load.
    pub adaptive_send: bool,
}

/// Sizes of a device's packet rings, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rings {
    /// Present size of the receive ring in packets.
    pub receive: u32,
    /// Largest possible size of the receive ring in packets.
    pub receive_most: u32,
    /// Present size of the send ring in packets.
    pub send: u32,
    /// Largest possible size of the send ring in packets.
    pub send_most: u32,
}

/// Settings of Ethernet pause frames (IEEE 802.3x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// True if the device negotiates `obeys` and `asks` with the other end, so that the negotiated
    /// values apply instead of the configured ones.
    pub negotiated: bool,
    /// True if the device stops sending when it receives a pause frame.
    pub obeys: bool,
    /// True if the device sends pause frames.
    pub asks: bool,
}

/// The state of an offload of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Feature {
    /// True if the feature is in use.
    pub on: bool,
    /// True if the feature cannot be changed.
    pub fixed: bool,
}

/// The offloads that matter when trains of packets are sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Segmentation of TCP trains by the device (`tx-tcp-segmentation`).
    pub tso: Feature,
    /// Segmentation of trains by the kernel, as late as possible (`tx-generic-segmentation`).
    pub gso: Feature,
    /// Joining of received packets into trains by the kernel (`rx-gro`).
    pub gro: Feature,
    /// Segmentation of UDP trains by the device (`tx-udp-segmentation`); `None` on kernels before
    /// 4.18, which lack this feature.
    pub udp: Option<Feature>,
}

/// Returns the name of the device's driver.
///
/// # Errors
/// The driver does not report its name.
pub fn driver(device: &str) -> Fact<String> {
    let answer = ask(device, &[number::DRIVER])?;
    Ok(string(&answer[1..9]))
}

/// Returns the rate and the duplex mode of the device's line.
///
/// # Errors
/// The driver does not report the line's settings.
pub fn line(device: &str) -> Fact<Line> {
    // A request must have room for bit maps of link modes. The kernel answers a request without
    // room only with the number of words that it needs, as a negative number.
    let answer = ask(device, &[number::LINK_SETTINGS])?;
    let words = answer[3].to_ne_bytes()[3].cast_signed();
    if words >= 0 {
        return Err(Unavailable::new(
            "its driver gave an unreadable answer about speed and duplex; compare it with `ethtool DEVICE`",
        ));
    }
    let room = u32::from_ne_bytes([0, 0, 0, words.unsigned_abs()]);
    let answer = ask(device, &[number::LINK_SETTINGS, 0, 0, room])?;
    Ok(line_of(answer[1], answer[2].to_ne_bytes()[0]))
}

/// Returns the line's rate and duplex mode. In the values `SPEED_UNKNOWN` and `DUPLEX_UNKNOWN` all
/// bits are ones; some drivers report 0 Mbit/s where there is no cable.
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

/// Returns the interrupt coalescing of a device.
///
/// # Errors
/// The driver does not report its interrupt coalescing.
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

/// Changes the interrupt coalescing of a device; settings that [`Coalescing`] does not contain stay
/// as they are.
///
/// # Errors
/// The driver does not support such settings, or this process may not change them.
pub fn set_coalescing(device: &str, wanted: Coalescing) -> Fact<()> {
    let present = ask(device, &[number::COALESCING])?;
    ask(device, &with_coalescing(&present, wanted)).map(drop)
}

/// Returns the request that changes the present coalescing, the driver's answer, to the wanted one.
fn with_coalescing(present: &[u32], wanted: Coalescing) -> Vec<u32> {
    /// Length of `struct ethtool_coalesce` (linux/ethtool.h) in words.
    const WORDS: usize = 23;
    let mut request: Vec<u32> = present.iter().copied().chain([0; WORDS]).take(WORDS).collect();
    for (at, value) in [
        (0, number::SET_COALESCING),
        (1, wanted.receive_micros),
        (2, wanted.receive_packets),
        (5, wanted.send_micros),
        (6, wanted.send_packets),
        (10, wanted.adaptive_receive.into()),
        (11, wanted.adaptive_send.into()),
    ] {
        request[at] = value;
    }
    request
}

/// Returns the sizes of the device's packet rings.
///
/// # Errors
/// The driver does not report the sizes of its rings.
pub fn rings(device: &str) -> Fact<Rings> {
    let answer = ask(device, &[number::RINGS])?;
    Ok(Rings { receive_most: answer[1], send_most: answer[4], receive: answer[5], send: answer[8] })
}

/// Returns the settings of Ethernet pause frames.
///
/// # Errors
/// The driver does not report its pause settings.
pub fn pause(device: &str) -> Fact<Pause> {
    let answer = ask(device, &[number::PAUSE])?;
    Ok(Pause { negotiated: answer[1] != 0, obeys: answer[2] != 0, asks: answer[3] != 0 })
}

/// Returns the driver's counters that have "pause" in their names and are not zero.
///
/// # Errors
/// The driver does not report its counters.
pub fn pause_counters(device: &str) -> Fact<Vec<(String, u64)>> {
    let names = strings(device, number::STATISTICS_SET)?;
    let request = [number::STATISTICS, u32::try_from(names.len()).unwrap_or(0)];
    let answer = ask(device, &request)?;
    // Behind the two words of the request, each counter has 64 bits, in two words.
    let values = answer[2..].chunks_exact(2).map(|words| {
        let [low, high] = [words[0].to_ne_bytes(), words[1].to_ne_bytes()];
        let [a, b, c, d] = low;
        let [e, f, g, h] = high;
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    });
    let is_of_pauses = |name: &str| ["pause", "xoff", "pfc"].iter().any(|word| name.contains(word));
    Ok(names.into_iter().zip(values).filter(|(name, value)| *value > 0 && is_of_pauses(name)).collect())
}

/// Returns the state of the offloads that matter when trains of packets are sent or received.
///
/// # Errors
/// The kernel does not report the device's features.
pub fn offloads(device: &str) -> Fact<Offloads> {
    let names = strings(device, number::FEATURES_SET)?;
    // The kernel answers in blocks of four words for 32 features, behind the two words of the
    // request.
    let blocks = names.len().div_ceil(32);
    let answer = ask(device, &[number::FEATURES, u32::try_from(blocks).unwrap_or(0)])?;
    let state_of = |name: &str| {
        let at = names.iter().position(|other| other == name)?;
        feature(answer.get(2..2 + blocks * 4)?, at)
    };
    let required = |name: &str| {
        state_of(name).ok_or_else(|| {
            Unavailable::new(format!(
                "this kernel does not list the offload `{name}`; compare with `ethtool -k DEVICE`"
            ))
        })
    };
    Ok(Offloads {
        tso: required("tx-tcp-segmentation")?,
        gso: required("tx-generic-segmentation")?,
        gro: required("rx-gro")?,
        udp: state_of("tx-udp-segmentation"),
    })
}

/// Returns the state of feature number `at`. `blocks` has four words for each 32 features:
/// available, requested, active and never changed.
fn feature(blocks: &[u32], at: usize) -> Option<Feature> {
    let block = blocks.get(at / 32 * 4..at / 32 * 4 + 4)?;
    let is = |word: u32| word >> (at % 32) & 1 == 1;
    Some(Feature { on: is(block[2]), fixed: !is(block[0]) || is(block[3]) })
}

/// Returns the names in a string set of the device.
fn strings(device: &str, set: u32) -> Fact<Vec<String>> {
    let [low, high] = if cfg!(target_endian = "little") { [1 << set, 0] } else { [0, 1 << set] };
    let answer = ask(device, &[number::STRING_SETS, 0, low, high])?;
    // The kernel clears the bit of the requested string set if the device lacks the set.
    let count = if answer[2] | answer[3] == 0 { 0 } else { answer[4] as usize };
    if count == 0 || count > MOST_STRINGS {
        return Err(Unavailable::new(format!(
            "the driver of {device} says it has {count} statistics or features, which cannot be: update the driver"
        )));
    }
    let answer = ask(device, &[number::STRINGS, set, count as u32])?;
    let count = count.min(answer[2] as usize);
    Ok(answer[3..].chunks_exact(STRING_WORDS).take(count).map(string).collect())
}

/// Decodes a string up to its first zero byte.
fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
