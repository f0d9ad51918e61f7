//! The queueing disciplines of a device (`RTM_GETQDISC`).

mod options;
#[cfg(test)]
mod tests;

use std::fmt;

pub use options::{Etf, Fq, QdiscOptions};

use super::Fact;

/// One queueing discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct Qdisc {
    /// Its kind, by tc's name: `fq`, `pfifo_fast`, ...
    pub kind: String,
    /// The major number of its handle; 0 where the kernel chose it.
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
    /// It takes all that the device sends.
    Root,
    /// It belongs to a class of another.
    Below {
        /// The major number of the other's handle.
        major: u16,
        /// The number of the class.
        minor: u16,
    },
    /// It takes what the device receives.
    Ingress,
}

impl fmt::Display for Qdisc {
    /// `fq limit 10000p flow_limit 100p`, much as tc says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options.to_string() {
            options if options.is_empty() => f.write_str(&self.kind),
            options => write!(f, "{} {options}", self.kind),
        }
    }
}

/// The queueing disciplines of the device with that index, roots first.
///
/// # Errors
/// What the kernel says.
#[cfg(target_os = "linux")]
pub fn qdiscs(device: u32) -> Fact<Vec<Qdisc>> {
    use netlink_packet_route::{RouteNetlinkMessage, tc::TcMessage};

    // Without an index, the kernel lists the disciplines of all devices; asked for one device, old
    // kernels return its root alone.
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

/// The queueing disciplines of the device with that index, roots first.
///
/// # Errors
/// Only Linux has them.
#[cfg(not(target_os = "linux"))]
pub fn qdiscs(_device: u32) -> Fact<Vec<Qdisc>> {
    Err(super::Unavailable::new("only Linux has queueing disciplines"))
}
