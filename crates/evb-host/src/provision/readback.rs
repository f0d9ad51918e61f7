//! Compares the state of a device with a plan. The comparison reads the text of `tc class show` and
//! `tc filter show`, whose form has been stable for twenty years, because their JSON output lacks
//! HTB classes and repeats keys.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    executor::{TcError, TrafficControl, words},
    filter::Key,
    plan::{Class, Plan, ROOT, leaf_handle},
};

/// A traffic class as `tc` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shown {
    parent: u16,
    rate: f64,
    ceiling: f64,
    burst: f64,
    priority: Option<u8>,
    leaf: Option<String>,
    /// Number of L2 bytes that the class has sent.
    pub(crate) sent: u64,
    /// Number of packets that the class has dropped.
    pub(crate) dropped: u64,
}

/// The state of a device, compared with a plan.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Classes of the device by minor number.
    pub(crate) classes: BTreeMap<u16, Shown>,
    /// Differences between the state and the plan; empty if they are equal.
    pub(crate) differences: Vec<String>,
}

/// Relative rounding error of rates and sizes that tc prints with four digits.
const DIGITS: f64 = 2e-3;

/// Reads the state of a device and compares it with a plan.
///
/// # Errors
/// `tc` cannot be run.
pub(crate) fn compare(tc: &mut dyn TrafficControl, plan: &Plan) -> Result<Comparison, TcError> {
    let device = &plan.device;
    let classes = classes(&tc.run(&words(&format!("-s class show dev {device}")))?);
    let buckets = buckets(&tc.run(&words(&format!("-j qdisc show dev {device}")))?);
    let filters = filters(&tc.run(&words(&format!("filter show dev {device} parent {ROOT}")))?);
    let mut differences = Vec::new();
    for class in &plan.classes {
        let name = format!("{} ({ROOT}{:x})", class.name, class.minor);
        match classes.get(&class.minor) {
            None => differences.push(format!("the class {name} is missing")),
            Some(shown) => {
                differences.extend(unlike(class, shown, &buckets).map(|what| format!("{name}: {what}")));
            }
        }
    }
    let planned: BTreeSet<u16> = plan.classes.iter().map(|class| class.minor).collect();
    let foreign = classes.keys().filter(|minor| !planned.contains(minor));
    differences.extend(foreign.map(|minor| format!("the class {ROOT}{minor:x} is not in the plan")));
    differences.extend(unlike_filters(plan, &filters));
    Ok(Comparison { classes, differences })
}

/// Returns how a class differs from the plan. tc shows rounded numbers, so small differences do not
/// count.
fn unlike<'c>(
    class: &'c Class,
    shown: &'c Shown,
    buckets: &BTreeMap<String, (f64, f64)>,
) -> impl Iterator<Item = String> + use<'c> {
    let near = |is: f64, wanted: f64, slack: f64| (is - wanted).abs() <= wanted * DIGITS + slack;
    let bits = |rate: evb_core::units::Rate| rate.bits_per_second() as f64;
    let mut found = Vec::new();
    let mut number = |what: &str, is: f64, wanted: f64, slack: f64| {
        if !near(is, wanted, slack) {
            found.push(format!("{what} is {is}, not {wanted}"));
        }
    };
    number("the guaranteed rate in bit/s", shown.rate, bits(class.rate), 1_000.0);
    number("the ceiling in bit/s", shown.ceiling, bits(class.ceiling), 1_000.0);
    // tc converts a burst to a time in whole microseconds for the kernel and back, so that the size
    // is rounded.
    let step = bits(class.ceiling).max(bits(class.rate)) * 2.5e-6 / 8.0;
    number("the burst in bytes", shown.burst, class.burst.count() as f64, step + 16.0);
    if let Some((rate, depth)) = class.bucket {
        let (is, holds) = buckets.get(&leaf_handle(class.minor)).copied().unwrap_or_default();
        number("the bucket's rate in bit/s", is, bits(rate), 1_000.0);
        number("the bucket's burst in bytes", holds, depth.count() as f64, step + 16.0);
    }
    if shown.parent != class.parent {
        found.push(format!("its parent is {:#x}, not {:#x}", shown.parent, class.parent));
    }
    if shown.priority != class.priority {
        found.push(format!("its priority is {}, not {}", in_words(shown.priority), in_words(class.priority)));
    }
    let leaf = class.priority.map(|_| leaf_handle(class.minor));
    if shown.leaf != leaf {
        found.push(format!(
            "its queue is {}, not {}",
            in_words(shown.leaf.as_ref()),
            in_words(leaf.as_ref())
        ));
    }
    found.into_iter()
}

/// Returns a value of `tc`, or that there is none, in words.
fn in_words(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Returns the filters of the plan that are missing, and others that the plan does not have.
fn unlike_filters(plan: &Plan, shown: &BTreeMap<(String, u16), Vec<Vec<Key>>>) -> Vec<String> {
    let mut left = shown.clone();
    let mut differences = Vec::new();
    for filter in &plan.filters {
        let place = (format!("{} {}", filter.matches.protocol(), filter.preference), filter.class);
        let keys = filter.matches.keys();
        let there = left.get_mut(&place).and_then(|all| {
            let at = all.iter().position(|have| *have == keys)?;
            Some(all.swap_remove(at))
        });
        if there.is_none() {
            differences.push(format!(
                "the filter `{}` to class {ROOT}{:x} is missing",
                filter.matches.words().join(" "),
                filter.class
            ));
        }
    }
    for ((place, class), keys) in left.iter().filter(|(_, keys)| !keys.is_empty()) {
        differences.push(format!(
            "{} unplanned filters ({place}) direct packets to class {ROOT}{class:x}",
            keys.len()
        ));
    }
    differences
}

/// Parses the text of `tc -s class show`.
pub(super) fn classes(text: &str) -> BTreeMap<u16, Shown> {
    let mut classes = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("class ") {
            current = class(&words);
            if let Some((minor, shown)) = &current {
                classes.insert(*minor, Shown::clone(shown));
            }
        } else if let (Some((minor, _)), ["Sent", sent, "bytes", _, "pkt", "(dropped", dropped, ..]) =
            (&current, &words[..])
            && let Some(shown) = classes.get_mut(minor)
        {
            shown.sent = sent.parse().unwrap_or_default();
            shown.dropped = dropped.trim_end_matches(',').parse().unwrap_or_default();
        }
    }
    classes
}

/// Parses a line such as
/// `class htb e7b:10 parent e7b:1 leaf e7c: prio 1 rate 97653Kbit ceil 97653Kbit burst 3027b`.
fn class(words: &[&str]) -> Option<(u16, Shown)> {
    let ["class", "htb", handle, rest @ ..] = words else { return None };
    let minor = minor(handle)?;
    // The value of an option is the word behind its name.
    let after = |word: &str| {
        let at = rest.iter().position(|have| *have == word)?;
        rest.get(at + 1).copied()
    };
    let shown = Shown {
        parent: after("parent").and_then(self::minor).unwrap_or_default(),
        rate: after("rate").and_then(bits)?,
        ceiling: after("ceil").and_then(bits)?,
        burst: after("cburst").and_then(bytes)?,
        priority: after("prio").and_then(|priority| priority.parse().ok()),
        leaf: after("leaf").map(str::to_owned),
        sent: 0,
        dropped: 0,
    };
    Some((minor, shown))
}

fn minor(handle: &str) -> Option<u16> {
    u16::from_str_radix(handle.strip_prefix(ROOT)?, 16).ok()
}

/// Parses a rate. tc prints rates with decimal prefixes (`print_rate`) and sizes with binary ones
/// (`print_size`).
fn bits(text: &str) -> Option<f64> {
    scaled(text.strip_suffix("bit")?, 1e3)
}

fn bytes(text: &str) -> Option<f64> {
    scaled(text.strip_suffix('b')?, 1024.0)
}

/// Parses a number with a prefix, each of which is `step` times the one before.
fn scaled(text: &str, step: f64) -> Option<f64> {
    let (number, power) = match text.char_indices().next_back()? {
        (at, 'K') => (&text[..at], 1),
        (at, 'M') => (&text[..at], 2),
        (at, 'G') => (&text[..at], 3),
        (at, 'T') => (&text[..at], 4),
        _ => (text, 0),
    };
    Some(number.parse::<f64>().ok()? * step.powi(power))
}

/// Returns the rate in bit/s and the depth in bytes of every tbf, by handle.
fn buckets(json: &str) -> BTreeMap<String, (f64, f64)> {
    let entries: Vec<serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let tbf = entries.iter().filter(|entry| entry["kind"] == "tbf");
    tbf.filter_map(|entry| {
        let options = &entry["options"];
        let numbers = (options["rate"].as_f64()? * 8.0, options["burst"].as_f64()?);
        Some((entry["handle"].as_str()?.to_owned(), numbers))
    })
    .collect()
}

/// Parses the text of `tc filter show`. The result lists, for each protocol, preference and class,
/// the `u32` keys of every filter.
pub(super) fn filters(text: &str) -> BTreeMap<(String, u16), Vec<Vec<Key>>> {
    let mut filters: BTreeMap<(String, u16), Vec<Vec<Key>>> = BTreeMap::new();
    let mut place = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"filter") {
            // The value of an option is the word behind its name.
            let after = |word: &str| {
                let at = words.iter().position(|have| have.trim_start_matches('*') == word)?;
                words.get(at + 1).copied()
            };
            place =
                (|| Some((format!("{} {}", after("protocol")?, after("pref")?), minor(after("flowid")?)?)))();
            if let Some(place) = &place {
                filters.entry(place.clone()).or_default().push(Vec::new());
            }
        } else if let (Some(place), ["match", key, "at", offset]) = (&place, &words[..])
            && let Some(keys) = filters.get_mut(place).and_then(|all| all.last_mut())
        {
            keys.extend(self::key(key, offset));
        }
    }
    filters
}

/// Parses a key such as `0a630002/ffffffff at 16`.
fn key(key: &str, offset: &str) -> Option<Key> {
    let (value, mask) = key.split_once('/')?;
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    Some(Key { value: hexadecimal(value)?, mask: hexadecimal(mask)?, offset: offset.parse().ok()? })
}
