//! Turns a request into `tc` commands without running them, so that the commands can be printed,
//! tested and compared.
//!
//! The tree of classes is that of Yasu et al. (token buckets within CBQ), built from HTB, tbf and
//! pfifo of today's Linux kernel:
//!
//! ```text
//! e7b:1 link ─┬─ e7b:2 data ─┬─ e7b:100 first builder   rate = its share, ceil = its bucket's rate
//!             │              └─ e7b:101 …
//!             ├─ e7b:3 control       guaranteed, served first
//!             ├─ e7b:4 monitoring    guaranteed little, capped
//!             └─ e7b:5 other         the rest of the link
//! ```

use std::{net::SocketAddr, time::Duration};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};

use super::{
    filter::{Filter, Match},
    traffic::{Kind, Share, TrafficClass},
};

/// Handle of the root qdisc, by which evbd recognises a qdisc that it has set up.
pub(crate) const ROOT: &str = "e7b:";
/// Minor number of the class for the whole link.
pub(crate) const LINK: u16 = 1;
/// Minor number of the class for all event data.
pub(crate) const DATA: u16 = 2;
/// Minor number of the first destination's class; further destinations have the following numbers.
pub(crate) const FIRST_DESTINATION: u16 = 0x100;
/// Lateness of the kernel's timers for which a token bucket compensates: 50 to 100 µs were
/// measured, doubled for a busy host.
const LATENESS: Duration = Duration::from_micros(200);
/// Lateness for which the buckets of classes that contain other classes compensate. This lateness
/// is so large that it never reduces the rate of the contained classes, whose own buckets limit the
/// bytes that reach a port.
const INNER: Duration = Duration::from_millis(2);
/// Lateness for which these buckets compensate if no destination has a rate. Control messages then
/// wait behind the bytes that leave at once: with 2 ms, a control message waited 4.3 ms at the 99th
/// percentile.
const SHARED: Duration = Duration::from_micros(500);
/// Largest number of packets in the queue of a class.
const QUEUE_PACKETS: u64 = 1_000;
/// Length of the queue of a tbf, as a time at its rate.
const QUEUE_TIME: Duration = Duration::from_millis(200);

/// The mechanism that enforces the rate of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bucket {
    /// The HTB class limits the rate by its ceiling. A ceiling needs the least processor time and
    /// is exact up to the link's rate, but a segmentation train counts as one packet.
    Htb,
    /// A tbf within the class limits the rate. The tbf splits segmentation trains, so that no burst
    /// is longer than the bucket, but needs more processor time.
    Tbf,
}

/// A builder, as a destination of this host's sources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// Id of the builder.
    pub(crate) builder: BuilderId,
    /// Addresses at which the builder listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Rate at which this host may send to the builder, in bytes of L2 frames, which tc counts;
    /// `None`: the link's full rate.
    pub(crate) rate: Option<Rate>,
    /// Largest number of bytes that leave back to back; `None`: as many as the lateness of the
    /// kernel's timers requires.
    pub(crate) burst: Option<Bytes>,
}

/// The requirements for a device. All rates are in bytes of L2 frames, which tc counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Name of the device.
    pub(crate) device: String,
    /// Rate of the link.
    pub(crate) link: Rate,
    /// Size of the largest L2 frame.
    pub(crate) frame: Bytes,
    /// Mechanism that enforces the rates.
    pub(crate) bucket: Bucket,
    /// True if the network card should enforce the rates (HTB offload).
    pub(crate) offload: bool,
    /// Destinations of the event data: all builders.
    pub(crate) destinations: Vec<Destination>,
    /// Share of all event data together in the link.
    pub(crate) data: Share,
    /// Traffic classes other than the event data.
    pub(crate) classes: Vec<TrafficClass>,
    /// Conditions that identify control traffic by its addresses.
    pub(crate) control: Vec<Match>,
}

/// A traffic class of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    /// Name of the class for people.
    pub(crate) name: String,
    /// Minor number of the class.
    pub(crate) minor: u16,
    /// Minor number of the class's parent; 0 for the root qdisc.
    pub(crate) parent: u16,
    /// Rate that the class is guaranteed.
    pub(crate) rate: Rate,
    /// Largest rate of the class.
    pub(crate) ceiling: Rate,
    /// Number of bytes that the class may save up as tokens, both for its rate and for its ceiling.
    pub(crate) burst: Bytes,
    /// Order in which classes borrow unused rate, smaller numbers first; `None` for a class that
    /// contains other classes.
    pub(crate) priority: Option<u8>,
    /// Rate and depth of a tbf within the class; `None` without a tbf.
    pub(crate) bucket: Option<(Rate, Bytes)>,
}

/// The commands for a device, and the classes and filters that they create.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Name of the device.
    pub(crate) device: String,
    /// Classes in an order with parents before their children.
    pub(crate) classes: Vec<Class>,
    /// Filters in the order in which the kernel tests them.
    pub(crate) filters: Vec<Filter>,
    /// Arguments of all `tc` commands, in their order.
    pub(crate) steps: Vec<Vec<String>>,
    /// Remarks for the operator.
    pub(crate) notes: Vec<String>,
}

/// The reason why a plan cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// The text is not a valid name of a network device.
    #[error("`{0}` cannot be the name of a network device; give --device one that `ip link` lists")]
    Device(String),
    /// The guarantees of the other classes leave no rate for the event data.
    #[error(
        "control, monitoring and other are guaranteed {taken}, but the link has only {link}: nothing is left for the data; lower them with --class NAME,rate=…"
    )]
    NothingLeft {
        /// Rate that the classes other than the event data are guaranteed.
        taken: Rate,
        /// Rate of the link.
        link: Rate,
    },
    /// The configuration has more builders than one qdisc can have classes.
    #[error("the configuration has {0} builders, more than the {most} that evbd can give one qdisc: do without `evbd provision`, and write `rate` in [shaping] to let evb pace by itself", most = MOST_DESTINATIONS)]
    TooMany(usize),
    /// The burst is smaller than a full packet.
    #[error("a burst of {burst} is less than one full packet of {frame}; give --burst at least that size")]
    Burst {
        /// Requested size of the burst.
        burst: Bytes,
        /// Size of the largest L2 frame.
        frame: Bytes,
    },
}

const MOST_DESTINATIONS: usize = 0x1000;

/// Returns the smallest depth of a bucket at which late timers do not reduce its rate: the bytes of
/// the timers' lateness, and the packet that is being sent.
pub(crate) fn least_burst(rate: Rate, frame: Bytes) -> Bytes {
    frame + (rate * LATENESS).max(frame)
}

/// Returns the plan for a request.
///
/// # Errors
/// [`PlanError`]: the request cannot be fulfilled.
pub(crate) fn plan(request: &Request) -> Result<Plan, PlanError> {
    check(request)?;
    let (classes, mut notes) = classes(request)?;
    let filters = filters(request);
    if request.bucket == Bucket::Htb {
        notes.push(format!(
            "where segmentation offload is on, a train of up to 64 KiB counts as one packet and leaves as one burst; \
             `ethtool -K {} tso off gso off` or --bucket tbf bounds it",
            quoted(&request.device)
        ));
    }
    let steps = steps(request, &classes, &filters);
    Ok(Plan { device: request.device.clone(), classes, filters, steps, notes })
}

/// Checks the device's name, the number of destinations and their bursts.
fn check(request: &Request) -> Result<(), PlanError> {
    let device = &request.device;
    // The rules for names are those of the kernel's dev_valid_name. A leading dash is refused too,
    // because tc would read the name as an option.
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
    let named = (1..16).contains(&device.len()) && !device.starts_with(['-', '.']) && !device.contains(bad);
    if !named {
        return Err(PlanError::Device(device.clone()));
    }
    if request.destinations.len() > MOST_DESTINATIONS {
        return Err(PlanError::TooMany(request.destinations.len()));
    }
    match request.destinations.iter().filter_map(|destination| destination.burst).min() {
        Some(burst) if burst < request.frame => Err(PlanError::Burst { burst, frame: request.frame }),
        _ => Ok(()),
    }
}

/// Returns the classes below the link, and notes for the operator. The classes for data share what
/// is guaranteed to no other class.
fn classes(request: &Request) -> Result<(Vec<Class>, Vec<String>), PlanError> {
    let link = request.link;
    let all_data = request.data.ceiling.min(link);
    let bits = |rate: Rate| rate.bits_per_second();
    let guaranteed = request.classes.iter().map(|class| bits(class.share.guaranteed));
    let taken = guaranteed.fold(0, u64::saturating_add);
    let left = bits(link).saturating_sub(taken).min(bits(request.data.guaranteed));
    if left == 0 {
        return Err(PlanError::NothingLeft { taken: Rate::from_bits_per_second(taken), link });
    }
    let left = Rate::from_bits_per_second(left);
    let mut classes =
        vec![inner(request, "link", LINK, 0, link, link), inner(request, "data", DATA, LINK, left, all_data)];
    let notes = push_destinations(&mut classes, request, left, all_data);
    for class in &request.classes {
        let (share, kind) = (class.share, class.kind);
        let own = inner(request, kind.word(), kind.minor(), LINK, share.guaranteed, share.ceiling.min(link));
        classes.push(Class { priority: Some(share.priority), ..own });
    }
    Ok((classes, notes))
}

/// Returns a class whose burst only compensates for the lateness of timers.
fn inner(request: &Request, name: &str, minor: u16, parent: u16, rate: Rate, ceiling: Rate) -> Class {
    let frame = request.frame;
    let has_rates = request.destinations.iter().any(|destination| destination.rate.is_some());
    let depth = if has_rates { INNER } else { SHARED };
    let burst = (ceiling * depth).max(least_burst(ceiling, frame).saturating_sub(frame));
    Class { name: name.into(), minor, parent, rate, ceiling, burst, priority: None, bucket: None }
}

/// Adds the destinations' classes. The classes divide `left`, the guaranteed rate of the event
/// data, in proportion to their rates, and may borrow up to their own rates.
fn push_destinations(classes: &mut Vec<Class>, request: &Request, left: Rate, all_data: Rate) -> Vec<String> {
    let frame = request.frame;
    let mut notes = Vec::new();
    let ceiling = |destination: &Destination| destination.rate.unwrap_or(all_data).min(all_data);
    let bits = |rate: Rate| u128::from(rate.bits_per_second());
    let wanted: u128 = request.destinations.iter().map(|destination| bits(ceiling(destination))).sum();
    if request.destinations.iter().any(|destination| destination.rate.is_some_and(|rate| rate > all_data)) {
        notes.push(format!(
            "rates above {all_data}, the most that all event data may have, are lowered to it; nothing needs to be done"
        ));
    }
    if wanted > bits(left) {
        let asked = Rate::from_bits_per_second(u64::try_from(wanted).unwrap_or(u64::MAX));
        notes.push(format!(
            "all destinations together may ask for {asked}, but data is guaranteed {left}: each is guaranteed its part \
             of that and borrows up to its own rate; nothing needs to be done"
        ));
    }
    let share = |rate: Rate| {
        let part = bits(rate) * bits(left) / wanted.max(bits(left));
        Rate::from_bits_per_second(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    };
    for (minor, destination) in (FIRST_DESTINATION..).zip(&request.destinations) {
        let (most, limited) = (ceiling(destination), destination.rate.is_some());
        let depth = destination.burst.unwrap_or_else(|| least_burst(most, frame));
        let in_tbf = limited && request.bucket == Bucket::Tbf;
        // The class around a tbf may borrow all of the data's rate, so that the class never delays
        // the tbf's packets.
        let name = format!("builder {}", destination.builder);
        let around = if in_tbf { all_data } else { most };
        let own = inner(request, &name, minor, DATA, share(most), around);
        let burst = match limited && !in_tbf {
            // HTB sends as long as the tokens are not negative, which is one packet more than the
            // saved tokens.
            true => depth.saturating_sub(frame).max(Bytes::new(1)),
            false => own.burst,
        };
        let bucket = in_tbf.then_some((most, depth));
        classes.push(Class { burst, priority: Some(request.data.priority), bucket, ..own });
    }
    notes
}

/// Returns the filters. Filters for addresses come before those for code points, so that packets to
/// a builder are event data even if they carry the code point of another class.
fn filters(request: &Request) -> Vec<Filter> {
    let to = |destination: &Destination, minor| {
        destination.addresses.iter().map(move |address| (Match::To(*address), minor)).collect::<Vec<_>>()
    };
    let data = (FIRST_DESTINATION..)
        .zip(&request.destinations)
        .flat_map(|(minor, destination)| to(destination, minor));
    let control = request.control.iter().map(|matches| (matches.clone(), Kind::Control.minor()));
    let marked = request.classes.iter().flat_map(|class| {
        let minor = class.kind.minor();
        // Unmarked packets have the code point 0, so that it does not identify a class.
        let points = class
            .dscp
            .iter()
            .filter(|point| **point != 0)
            .flat_map(|point| [Match::Dscp4(*point), Match::Dscp6(*point)]);
        points.chain(class.socket_priority.map(Match::SocketPriority)).map(move |matches| (matches, minor))
    });
    let mut filters: Vec<Filter> = data
        .chain(control)
        .chain(marked)
        .map(|(matches, class)| Filter { preference: preference(&matches), matches, class })
        .collect();
    filters.sort_by_key(|filter| filter.preference);
    filters.dedup();
    filters
}

/// Returns the preference of a filter, by which tc tries filters in order.
fn preference(matches: &Match) -> u16 {
    let kind = match matches {
        Match::To(_) => 10,
        Match::From(_) => 20,
        Match::Dscp4(_) | Match::Dscp6(_) => 30,
        Match::SocketPriority(_) => 40,
    };
    // All filters with the same preference must have the same protocol.
    kind + u16::from(matches.protocol() == "ipv6")
}

/// Returns the commands of tc, in the order in which they are given.
fn steps(request: &Request, classes: &[Class], filters: &[Filter]) -> Vec<Vec<String>> {
    let on_device = |what: &str, rest: String| {
        let words = ["add", "dev", &request.device].into_iter().chain(rest.split(' ')).map(str::to_owned);
        [what.to_owned()].into_iter().chain(words).collect::<Vec<String>>()
    };
    let offload = if request.offload { " offload" } else { "" };
    let mut steps = vec![on_device(
        "qdisc",
        format!("root handle {ROOT} htb default {:x}{offload}", Kind::Other.minor()),
    )];
    for class in classes {
        let parent = if class.parent == 0 { ROOT.to_owned() } else { format!("{ROOT}{:x}", class.parent) };
        let prio = class.priority.map(|priority| format!(" prio {priority}")).unwrap_or_default();
        steps.push(on_device(
            "class",
            format!(
                "parent {parent} classid {ROOT}{:x} htb rate {}bit ceil {}bit burst {b}b cburst {b}b quantum {}{prio}",
                class.minor,
                class.rate.bits_per_second(),
                class.ceiling.bits_per_second(),
                request.frame.count() * 2,
                b = class.burst.count(),
            ),
        ));
    }
    for class in classes.iter().filter(|class| class.priority.is_some()) {
        let kind = match class.bucket {
            Some((rate, depth)) => format!(
                "tbf rate {}bit burst {}b limit {}b",
                rate.bits_per_second(),
                depth.count(),
                (rate * QUEUE_TIME).max(depth * 2).max(Bytes::kib(64)).count()
            ),
            None => format!("pfifo limit {QUEUE_PACKETS}"),
        };
        let place = format!("parent {ROOT}{:x} handle {} {kind}", class.minor, leaf_handle(class.minor));
        steps.push(on_device("qdisc", place));
    }
    for filter in filters {
        let mut step = on_device(
            "filter",
            format!("parent {ROOT} protocol {} prio {}", filter.matches.protocol(), filter.preference),
        );
        step.extend(filter.matches.words());
        step.extend(["flowid".to_owned(), format!("{ROOT}{:x}", filter.class)]);
        steps.push(step);
    }
    steps
}

/// Returns the handle of the queue within a leaf class.
pub(crate) fn leaf_handle(minor: u16) -> String {
    format!("{:x}:", 0xe800_u16.saturating_add(minor))
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
