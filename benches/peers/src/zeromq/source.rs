use super::{END, HELLO, Header, socket};
use crate::barrier::Barrier;
use crate::payload::Template;
use crate::role::{SourceArguments, SourceReport, Triggers};
use anyhow::{Context, Result};

/// Size above which a message is built in memory that the program allocates, because the Rust
/// binding of ZeroMQ can only allocate zeroed messages, and zeroing a large message is expensive.
/// For a smaller message, saving an allocation is worth more.
const ZEROING_IS_CHEAP: usize = 16 * 1024;

/// Runs one source of the ZeroMQ program until it has sent its last event.
pub fn send(arguments: &SourceArguments) -> Result<()> {
    arguments.work.check()?;
    let barrier = Barrier { launched: arguments.launched };
    let context = zmq::Context::new();
    let mut lanes = Vec::new();
    for to in &arguments.connect {
        let lane = socket(&context, zmq::PUSH, &arguments.work)?;
        lane.connect(&format!("tcp://{to}")).with_context(|| format!("cannot connect to {to}"))?;
        lanes.push(lane);
    }
    let (source, size) = (arguments.id, arguments.work.size);
    let sign = |event| zmq::Message::from(&Header { event, source, length: 0, trigger_ns: 0 }.encode()[..]);
    for lane in &lanes {
        lane.send(sign(HELLO), 0)?;
    }
    let template = Template::new();
    let mut triggers = Triggers::new(arguments, barrier, barrier.ready(&arguments.work)?);
    while let Some((event, trigger_ns)) = triggers.next(|| Ok(()))? {
        let header = Header { event, source, length: size as u32, trigger_ns };
        let to = ((event - 1) % lanes.len() as u64) as usize;
        lanes[to].send(message(header, &template), 0)?;
    }
    for lane in &lanes {
        lane.send(sign(END), 0)?;
    }
    barrier.report(&SourceReport { source, events: triggers.events() })
}

/// Creates a message of header and payload, and writes each of its bytes only once.
pub fn message(header: Header, template: &Template) -> zmq::Message {
    let size = header.length as usize;
    if size <= ZEROING_IS_CHEAP {
        let mut message = zmq::Message::with_size(Header::LENGTH + size);
        let (head, payload) = message.split_at_mut(Header::LENGTH);
        head.copy_from_slice(&header.encode());
        template.fill(payload, header.source, header.event);
        return message;
    }
    let mut bytes = Vec::with_capacity(Header::LENGTH + size);
    bytes.extend_from_slice(&header.encode());
    template.append(&mut bytes, header.source, header.event, size);
    zmq::Message::from(bytes)
}
