//! From what is wanted to the commands: pure, so that what would be done can be printed, tested and compared.
//!
//! The tree is that of Yasu et al. (token buckets within CBQ) in today's kernel:
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

/// The root qdisc's handle: what has it is ours.
pub(crate) const ROOT: &str = "e7b:";
/// The whole link's class.
pub(crate) const LINK: u16 = 1;
/// The class of all event data.
pub(crate) const DATA: u16 = 2;
/// The class of the first destination; the others follow.
pub(crate) const FIRST_DESTINATION: u16 = 0x100;
/// What a bucket must hold because the kernel's timers are late: measured 50 to 100 µs, twice that for a busy host.
const LATENESS: Duration = Duration::from_micros(200);
/// What classes with classes in them make up for: deep enough never to cost the rate of those within, whose own buckets bound
/// what reaches a port.
const INNER: Duration = Duration::from_millis(2);
/// The same where no destination has a rate, and what leaves at once is the queue in which control waits: with 2 ms a control
/// message waited 4.3 ms at the 99th percentile.
const SHARED: Duration = Duration::from_micros(500);
/// Packets that a class queues.
const QUEUE_PACKETS: u64 = 1_000;
/// How long a token bucket's own queue may be.
const QUEUE_TIME: Duration = Duration::from_millis(200);

/// Who keeps the rate of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bucket {
    /// The HTB class itself, by its ceiling: cheapest, exact up to the link's rate; a segmentation train is one packet to it.
    Htb,
    /// A tbf within the class: it splits segmentation trains, so that no burst is longer than the bucket, at more cost.
    Tbf,
}

/// One builder, as its sources' host sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// Which builder.
    pub(crate) builder: BuilderId,
    /// Where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// What this host may send there, in the bytes that tc counts; `None`: what the link gives.
    pub(crate) rate: Option<Rate>,
    /// The most that leaves back to back; `None`: what the kernel's timers need.
    pub(crate) burst: Option<Bytes>,
}

/// What is wanted of a device. All rates are in the bytes that tc counts: L2 frames.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// The device.
    pub(crate) device: String,
    /// What its link carries.
    pub(crate) link: Rate,
    /// The largest L2 frame.
    pub(crate) frame: Bytes,
    /// Who keeps the rates.
    pub(crate) bucket: Bucket,
    /// Whether the device is to do it itself (HTB offload).
    pub(crate) offload: bool,
    /// All builders.
    pub(crate) destinations: Vec<Destination>,
    /// What all event data together has.
    pub(crate) data: Share,
    /// The traffic beside the data.
    pub(crate) classes: Vec<TrafficClass>,
    /// What is control traffic, by address.
    pub(crate) control: Vec<Match>,
}

/// One class, as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    /// What it is, for people.
    pub(crate) name: String,
    /// Its minor number, and its parent's (0: the qdisc).
    pub(crate) minor: u16,
    /// Its parent's minor number; 0 for the qdisc itself.
    pub(crate) parent: u16,
    /// Its guaranteed rate.
    pub(crate) rate: Rate,
    /// Its ceiling.
    pub(crate) ceiling: Rate,
    /// The tokens that it may save up, of either rate.
    pub(crate) burst: Bytes,
    /// Who borrows first; `None` for a class with classes in it.
    pub(crate) priority: Option<u8>,
    /// A bucket of its own within it: rate and depth.
    pub(crate) bucket: Option<(Rate, Bytes)>,
}

/// What is to be done, and what will then be there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The device.
    pub(crate) device: String,
    /// The classes, parents first.
    pub(crate) classes: Vec<Class>,
    /// The filters, in the order in which they are asked.
    pub(crate) filters: Vec<Filter>,
    /// The arguments of every `tc`, in order.
    pub(crate) steps: Vec<Vec<String>>,
    /// What one should know.
    pub(crate) notes: Vec<String>,
}

/// Why there can be no plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// No name of a device.
    #[error("`{0}` is no name of a network device; `ip link` lists them")]
    Device(String),
    /// Too little is left.
    #[error(
        "control, monitoring and other are guaranteed {taken}, and the link has {link}: nothing is left for the data; lower them with --class NAME,rate=…"
    )]
    NothingLeft {
        /// What the classes beside the data take.
        taken: Rate,
        /// The link.
        link: Rate,
    },
    /// More builders than class numbers.
    #[error("{0} builders are more than the {most} that one qdisc is given here", most = MOST_DESTINATIONS)]
    TooMany(usize),
    /// Less than a packet.
    #[error("a burst of {burst} is less than one full packet of {frame}; give at least that")]
    Burst {
        /// As asked.
        burst: Bytes,
        /// The largest frame.
        frame: Bytes,
    },
}

const MOST_DESTINATIONS: usize = 0x1000;

/// What the bucket of that rate must hold so that the kernel's timers do not cost rate: their lateness, and the packet
/// that is on its way.
pub(crate) fn least_burst(rate: Rate, frame: Bytes) -> Bytes {
    frame + (rate * LATENESS).max(frame)
}

/// The plan for a request.
///
/// # Errors
/// [`PlanError`]: the request asks for what cannot be.
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
    // As the kernel's dev_valid_name, and no dash in front that tc would take for an option.
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

/// A class that makes up for lateness only.
fn inner(request: &Request, name: &str, minor: u16, parent: u16, rate: Rate, ceiling: Rate) -> Class {
    let frame = request.frame;
    let has_rates = request.destinations.iter().any(|destination| destination.rate.is_some());
    let depth = if has_rates { INNER } else { SHARED };
    let burst = (ceiling * depth).max(least_burst(ceiling, frame).saturating_sub(frame));
    Class { name: name.into(), minor, parent, rate, ceiling, burst, priority: None, bucket: None }
}

/// The destinations share what is `left` to the data in proportion to their rates, and borrow up to these.
fn push_destinations(classes: &mut Vec<Class>, request: &Request, left: Rate, all_data: Rate) -> Vec<String> {
    let frame = request.frame;
    let mut notes = Vec::new();
    let ceiling = |destination: &Destination| destination.rate.unwrap_or(all_data).min(all_data);
    let bits = |rate: Rate| u128::from(rate.bits_per_second());
    let wanted: u128 = request.destinations.iter().map(|destination| bits(ceiling(destination))).sum();
    if request.destinations.iter().any(|destination| destination.rate.is_some_and(|rate| rate > all_data)) {
        notes.push(format!("a rate above {all_data}, which is the most for all data, is that"));
    }
    if wanted > bits(left) {
        let asked = Rate::from_bits_per_second(u64::try_from(wanted).unwrap_or(u64::MAX));
        notes.push(format!(
            "all destinations together may ask for {asked}, data is guaranteed {left}: each is guaranteed its part of \
             that and borrows up to its own rate"
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
        // The tbf's queue must never wait for the class around it.
        let name = format!("builder {}", destination.builder);
        let around = if in_tbf { all_data } else { most };
        let own = inner(request, &name, minor, DATA, share(most), around);
        let burst = match limited && !in_tbf {
            // HTB sends while tokens are not negative: one packet beyond what it saves up.
            true => depth.saturating_sub(frame).max(Bytes::new(1)),
            false => own.burst,
        };
        let bucket = in_tbf.then_some((most, depth));
        classes.push(Class { burst, priority: Some(request.data.priority), bucket, ..own });
    }
    notes
}

/// Addresses before code points: a builder's data is data, whatever its mark.
fn filters(request: &Request) -> Vec<Filter> {
    let to = |destination: &Destination, minor| {
        destination.addresses.iter().map(move |address| (Match::To(*address), minor)).collect::<Vec<_>>()
    };
    let data = (FIRST_DESTINATION..).zip(&request.destinations).flat_map(|(minor, d)| to(d, minor));
    let control = request.control.iter().map(|matches| (matches.clone(), Kind::Control.minor()));
    let marked = request.classes.iter().flat_map(|class| {
        let minor = class.kind.minor();
        // What is not marked has the code point 0: that is no mark.
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
    // A preference has one protocol.
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

/// The handle of the queue in a leaf class.
pub(crate) fn leaf_handle(minor: u16) -> String {
    format!("{:x}:", 0xe800_u16.saturating_add(minor))
}

/// A word as a POSIX shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
