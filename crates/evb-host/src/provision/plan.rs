//! Turns a request into commands without side effects, so that the commands can be printed, tested
//! and compared.
//!
//! The tree is that of Yasu et al. (token buckets within CBQ) in the terms of today's kernel:
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

/// Handle of the root qdisc, by which evbd recognises its own.
pub(crate) const ROOT: &str = "e7b:";
/// Minor number of the class of the whole link.
pub(crate) const LINK: u16 = 1;
/// Minor number of the class of all event data.
pub(crate) const DATA: u16 = 2;
/// Minor number of the first destination's class; the others follow.
pub(crate) const FIRST_DESTINATION: u16 = 0x100;
/// Lateness of the kernel's timers that a bucket makes up for: measured 50 to 100 µs, doubled for a
/// busy host.
const LATENESS: Duration = Duration::from_micros(200);
/// Lateness that classes with classes in them make up for. It is large enough never to reduce the
/// rate of the inner classes, whose own buckets bound the bytes that reach a port.
const INNER: Duration = Duration::from_millis(2);
/// The same lateness if no destination has a rate. The bytes that leave at once are then the queue
/// in which control waits: with 2 ms, a control message waited 4.3 ms at the 99th percentile.
const SHARED: Duration = Duration::from_micros(500);
/// Number of packets that a class can queue.
const QUEUE_PACKETS: u64 = 1_000;
/// Length of a token bucket's own queue, as a time.
const QUEUE_TIME: Duration = Duration::from_millis(200);

/// The mechanism that keeps the rate of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bucket {
    /// The HTB class itself, by its ceiling: cheapest, exact up to the link's rate; a segmentation
    /// train is one packet to it.
    Htb,
    /// A tbf within the class: it splits segmentation trains, so that no burst is longer than the
    /// bucket, at more cost.
    Tbf,
}

/// A builder, as a destination of this host's sources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// Id of the builder.
    pub(crate) builder: BuilderId,
    /// Addresses at which it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Rate that this host may send to it, in the bytes that tc counts; `None`: all that the link
    /// gives.
    pub(crate) rate: Option<Rate>,
    /// The most bytes that leave back to back; `None`: as many as the kernel's timers need.
    pub(crate) burst: Option<Bytes>,
}

/// The requirements for a device. All rates are in the bytes that tc counts: L2 frames.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Name of the device.
    pub(crate) device: String,
    /// Rate of the link.
    pub(crate) link: Rate,
    /// Size of the largest L2 frame.
    pub(crate) frame: Bytes,
    /// Mechanism that keeps the rates.
    pub(crate) bucket: Bucket,
    /// True if the device shall do it itself (HTB offload).
    pub(crate) offload: bool,
    /// All builders.
    pub(crate) destinations: Vec<Destination>,
    /// Share of all event data together.
    pub(crate) data: Share,
    /// Traffic besides the data.
    pub(crate) classes: Vec<TrafficClass>,
    /// Control traffic, by address.
    pub(crate) control: Vec<Match>,
}

/// One class of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    /// Name of the class for people.
    pub(crate) name: String,
    /// Minor number of the class.
    pub(crate) minor: u16,
    /// Minor number of its parent; 0 for the qdisc itself.
    pub(crate) parent: u16,
    /// Guaranteed rate.
    pub(crate) rate: Rate,
    /// Largest rate.
    pub(crate) ceiling: Rate,
    /// Tokens that the class may save up, of either rate.
    pub(crate) burst: Bytes,
    /// Order in which classes borrow, smaller numbers first; `None` for a class with classes in it.
    pub(crate) priority: Option<u8>,
    /// Rate and depth of a bucket within the class.
    pub(crate) bucket: Option<(Rate, Bytes)>,
}

/// The commands for a device, and the state that they lead to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Name of the device.
    pub(crate) device: String,
    /// Classes, parents first.
    pub(crate) classes: Vec<Class>,
    /// Filters, in the order in which the kernel tries them.
    pub(crate) filters: Vec<Filter>,
    /// Arguments of every `tc` command, in order.
    pub(crate) steps: Vec<Vec<String>>,
    /// Remarks for the operator.
    pub(crate) notes: Vec<String>,
}

/// The reason why there is no plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// The name cannot be that of a device.
    #[error("`{0}` is not the name of a network device; `ip link` lists them")]
    Device(String),
    /// The other classes leave no rate to the data.
    #[error(
        "control, monitoring and other are guaranteed {taken}, but the link has only {link}: nothing is left for the data; lower them with --class NAME,rate=…"
    )]
    NothingLeft {
        /// Rate that is guaranteed to the classes besides the data.
        taken: Rate,
        /// Rate of the link.
        link: Rate,
    },
    /// There are more builders than class numbers.
    #[error("{0} builders are more than the {most} that evbd can give one qdisc", most = MOST_DESTINATIONS)]
    TooMany(usize),
    /// The burst is smaller than a packet.
    #[error("a burst of {burst} is less than one full packet of {frame}; give at least that")]
    Burst {
        /// Burst as requested.
        burst: Bytes,
        /// Size of the largest frame.
        frame: Bytes,
    },
}

const MOST_DESTINATIONS: usize = 0x1000;

/// Returns the depth of a bucket at which late timers do not reduce its rate: their lateness, and
/// the packet that is being sent.
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

fn check(request: &Request) -> Result<(), PlanError> {
    let device = &request.device;
    // The rules are those of the kernel's dev_valid_name. A leading dash is refused too, because tc
    // would take it for an option.
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

/// Returns a class whose burst only makes up for lateness.
fn inner(request: &Request, name: &str, minor: u16, parent: u16, rate: Rate, ceiling: Rate) -> Class {
    let frame = request.frame;
    let has_rates = request.destinations.iter().any(|destination| destination.rate.is_some());
    let depth = if has_rates { INNER } else { SHARED };
    let burst = (ceiling * depth).max(least_burst(ceiling, frame).saturating_sub(frame));
    Class { name: name.into(), minor, parent, rate, ceiling, burst, priority: None, bucket: None }
}

/// Adds the destinations' classes. They share what is `left` to the data in proportion to their
/// rates, and borrow up to these.
fn push_destinations(classes: &mut Vec<Class>, request: &Request, left: Rate, all_data: Rate) -> Vec<String> {
    let frame = request.frame;
    let mut notes = Vec::new();
    let ceiling = |destination: &Destination| destination.rate.unwrap_or(all_data).min(all_data);
    let bits = |rate: Rate| u128::from(rate.bits_per_second());
    let wanted: u128 = request.destinations.iter().map(|destination| bits(ceiling(destination))).sum();
    if request.destinations.iter().any(|destination| destination.rate.is_some_and(|rate| rate > all_data)) {
        notes.push(format!("rates above {all_data}, the most for all data, are lowered to it"));
    }
    if wanted > bits(left) {
        let asked = Rate::from_bits_per_second(u64::try_from(wanted).unwrap_or(u64::MAX));
        notes.push(format!(
            "all destinations together may ask for {asked}, but data is guaranteed {left}: each is guaranteed its part \
             of that and borrows up to its own rate"
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
        // The class around a tbf may borrow all of the data's rate, so that the tbf's queue never
        // waits for it.
        let name = format!("builder {}", destination.builder);
        let around = if in_tbf { all_data } else { most };
        let own = inner(request, &name, minor, DATA, share(most), around);
        let burst = match limited && !in_tbf {
            // HTB sends while tokens are not negative: one packet more than it saves up.
            true => depth.saturating_sub(frame).max(Bytes::new(1)),
            false => own.burst,
        };
        let bucket = in_tbf.then_some((most, depth));
        classes.push(Class { burst, priority: Some(request.data.priority), bucket, ..own });
    }
    notes
}

/// Returns the filters. Addresses come before code points, because a builder's data is data,
/// whatever its mark.
fn filters(request: &Request) -> Vec<Filter> {
    let to = |destination: &Destination, minor| {
        destination.addresses.iter().map(move |address| (Match::To(*address), minor)).collect::<Vec<_>>()
    };
    let data = (FIRST_DESTINATION..).zip(&request.destinations).flat_map(|(minor, d)| to(d, minor));
    let control = request.control.iter().map(|matches| (matches.clone(), Kind::Control.minor()));
    let marked = request.classes.iter().flat_map(|class| {
        let minor = class.kind.minor();
        // The code point 0 is that of unmarked packets, so that it identifies no class.
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

fn preference(matches: &Match) -> u16 {
    let kind = match matches {
        Match::To(_) => 10,
        Match::From(_) => 20,
        Match::Dscp4(_) | Match::Dscp6(_) => 30,
        Match::SocketPriority(_) => 40,
    };
    // Filters of one preference must have the same protocol.
    kind + u16::from(matches.protocol() == "ipv6")
}

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

/// Returns the handle of the queue in a leaf class.
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
