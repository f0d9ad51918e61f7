//! Questions to the kernel by `NETLINK_ROUTE` (rtnetlink(7)), one socket per question.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::{Fact, Unavailable};

/// Maximum number of answers of one dump. No table is expected to be that long, and the limit ends
/// an endless dump.
const MOST_ANSWERS: usize = 100_000;

/// Asks the kernel for one object, such as a route.
pub(super) fn get(what: &str, question: RouteNetlinkMessage) -> Fact<RouteNetlinkMessage> {
    let answers = ask(what, question, NLM_F_REQUEST)?;
    answers.into_iter().next().ok_or_else(|| {
        Unavailable::new(format!(
            "{what}: the kernel did not answer; run this again, and if it fails again, report a fault of evb"
        ))
    })
}

/// Asks the kernel for a whole table, such as all network devices.
pub(super) fn dump(what: &str, question: RouteNetlinkMessage) -> Fact<Vec<RouteNetlinkMessage>> {
    ask(what, question, NLM_F_REQUEST | NLM_F_DUMP)
}

/// Asks the kernel a question over netlink, and returns all parts of the answer.
fn ask(what: &str, question: RouteNetlinkMessage, flags: u16) -> Fact<Vec<RouteNetlinkMessage>> {
    let failed = |error: io::Error| Unavailable::from_io(what, &error);
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    header.sequence_number = 1;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).map_err(failed)?;
    let wants_all = flags & NLM_F_DUMP == NLM_F_DUMP;
    let mut answers = Vec::new();
    while answers.len() < MOST_ANSWERS {
        let (datagram, _) = socket.recv_from_full().map_err(failed)?;
        if take(what, &datagram, &mut answers)? || !wants_all {
            return Ok(answers);
        }
    }
    Err(Unavailable::new(format!(
        "{what}: the kernel gave more than {MOST_ANSWERS} answers, more than evb reads; `ip -br link` shows what this host has"
    )))
}

/// Appends the answers in one datagram to `answers`. Returns true if the kernel marked the end of
/// its answers.
fn take(what: &str, datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> Fact<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(|error| {
            Unavailable::new(format!(
                "{what}: the kernel's answer cannot be read: {error}; report this as a fault of evb"
            ))
        })?;
        match message.payload {
            NetlinkPayload::InnerMessage(answer) => answers.push(answer),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_some() => {
                return Err(Unavailable::from_io(what, &error.to_io()));
            }
            NetlinkPayload::Overrun(_) => {
                return Err(Unavailable::new(format!(
                    "{what}: the kernel's answer was cut off; run this again, and if it fails again, report a fault of evb"
                )));
            }
            _ => {}
        }
        // Messages are aligned to four bytes (NLMSG_ALIGN, linux/netlink.h).
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
}
