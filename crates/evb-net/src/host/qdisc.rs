//! The queueing disciplines of a device (`RTM_GETQDISC`).

mod options;
#[cfg(test)]
mod tests;

use std::fmt;

pub use options::{Etf, Fq, QdiscOptions};

use super::Fact;

/// A queueing discipline of a network device.
#[derive(Clone, Debug, PartialEq)]
pub struct Qdisc {
    /// Kind of the discipline, by the name that tc(8) uses: `fq`, `pfifo_fast`, ...
    pub kind: String,
    /// Major number of the discipline's handle; 0 if the kernel set the discipline up by itself.
    pub handle: u16,
    /// Place in the device's tree of disciplines.
    pub place: Place,
    /// Settings.
    pub options: QdiscOptions,
    /// Number of packets dropped.
    pub drops: Option<u32>,
}

/// Place of a queueing discipline in a device's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The root discipline, which takes all packets that the device sends.
    Root,
    /// A discipline that belongs to a class of another discipline, its parent.
    Below {
        /// Major number of the parent's handle.
        major: u16,
        /// Number of the class within the parent.
        minor: u16,
    },
    /// The ingress discipline, which takes the packets that the device receives.
    Ingress,
}

impl fmt::Display for Qdisc {
    /// Writes the discipline much as tc(8) does, for example `fq limit 10000p flow_limit 100p`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options.to_string() {
            options if options.is_empty() => f.write_str(&self.kind),
            options => write!(f, "{} {options}", self.kind),
        }
    }
}

/// Returns the queueing disciplines of the device with the given index, root disciplines first.
///
/// # Errors
/// Fails if the kernel does not list the queueing disciplines.
#[cfg(target_os = "linux")]
pub fn qdiscs(device: u32) -> Fact<Vec<Qdisc>> {
    use netlink_packet_route::{RouteNetlinkMessage, tc::TcMessage};

    // The request names no device, so that the kernel lists the disciplines of all devices: for a
    // request that names one, old kernels return only the root discipline.
    let question = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    let answers = super::netlink::dump("the queueing disciplines", question)?;
    let mut found: Vec<Qdisc> = answers
        .iter()
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(message)
                if u32::try_from(message.header.index) == Ok(device) =>
            {
                Some(from_message(message))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|qdisc| qdisc.place != Place::Root);
    Ok(found)
}

/// Returns the facts about a queueing discipline that a message of the kernel has.
#[cfg(target_os = "linux")]
fn from_message(message: &netlink_packet_route::tc::TcMessage) -> Qdisc {
    use netlink_packet_route::tc::{TcAttribute, TcHandle};

    let (mut kind, mut drops, mut options) = (String::new(), None, &[][..]);
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(name) => kind.clone_from(name),
            TcAttribute::Options(found) => options = found,
            TcAttribute::Stats(stats) => drops = Some(stats.drops),
            _ => {}
        }
    }
    let place = match message.header.parent {
        TcHandle::ROOT => Place::Root,
        TcHandle::INGRESS => Place::Ingress,
        parent => Place::Below { major: parent.major, minor: parent.minor },
    };
    let options = options::read(&kind, options);
    Qdisc { kind, handle: message.header.handle.major, place, options, drops }
}

/// Returns the queueing disciplines of the device with the given index, root disciplines first.
///
/// # Errors
/// Always fails, because only Linux has queueing disciplines.
#[cfg(not(target_os = "linux"))]
pub fn qdiscs(_device: u32) -> Fact<Vec<Qdisc>> {
    Err(super::Unavailable::new("only Linux has queueing disciplines"))
}
