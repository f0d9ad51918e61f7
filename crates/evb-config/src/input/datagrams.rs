//! Inputs of boards that send datagrams.

use std::net::{IpAddr, SocketAddr};

use evb_core::{
    framing::{ByteOrder, FrameField, FrameLayout, LastPacket, MAX_PACKETS, OnLoss, PacketLayout},
    source::BeforeStart,
    units::Bytes,
};
use serde::Deserialize;

use super::{BoardPlace, Input, hooks::GivenHook};
use crate::{
    endpoint::Endpoint,
    forms::{Address, As, Form, Host, Positive, Whole, Word, wrong},
    frame::{GivenField, GivenFrame},
    section::Section,
    trigger::MulticastGroup,
};

/// Receive buffer of a socket, unless another size is configured.
const USUAL_BUFFER: Bytes = Bytes::mib(8);

/// The place where datagrams of boards arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramPlace {
    /// Local address and port.
    pub listen: Endpoint,
    /// Multicast group that the source joins.
    pub group: Option<IpAddr>,
    /// Interface on which it joins the group, by its address or name.
    pub interface: Option<String>,
    /// The only sender whose datagrams are used.
    pub from: Option<Sender>,
    /// Size of the socket's receive buffer.
    pub receive_buffer: Bytes,
    /// Fate of a fragment of which packets were lost.
    pub on_loss: OnLoss,
}

/// A sender of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Host, by name or address.
    pub host: String,
    /// Port; `None`: any.
    pub port: Option<u16>,
}

/// The packets of a fragment.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub(crate) struct GivenPackets {
    /// The number of a packet in its fragment.
    ///
    /// Default: none; `number`, or `offset` and `total`, are required
    number: Option<GivenField>,
    /// The number of the first packet.
    ///
    /// Default: 0
    #[serde(default, with = "Whole::<0, 1>")]
    first: Option<u8>,
    /// The number of packets of the fragment.
    ///
    /// Default: none; with `number`, one of `count`, `fixed_count` and `last` is required
    count: Option<GivenField>,
    /// The number of packets, if all fragments have the same.
    ///
    /// Default: none
    #[serde(default, with = "Whole::<1, { MAX_PACKETS as u64 }>")]
    fixed_count: Option<u32>,
    /// A field that is 0 in all packets but the last.
    ///
    /// Default: none
    last: Option<GivenField>,
    /// The offset of the packet's payload in the fragment, in bytes.
    ///
    /// Default: none
    offset: Option<GivenField>,
    /// The length of the fragment, in bytes.
    ///
    /// Default: none
    total: Option<GivenField>,
}

/// The fate of a fragment of which packets were lost.
#[derive(Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GivenOnLoss {
    Drop,
    Fill,
    KeepShort,
}

impl From<GivenOnLoss> for OnLoss {
    fn from(on_loss: GivenOnLoss) -> Self {
        match on_loss {
            GivenOnLoss::Drop => Self::Drop,
            GivenOnLoss::Fill => Self::Fill,
            GivenOnLoss::KeepShort => Self::KeepShort,
        }
    }
}

/// A sender, with or without a port.
pub(crate) struct SenderAddress;

impl Form for SenderAddress {
    type Value = Sender;
    const EXAMPLE: &'static str = "192.168.10.16";

    /// Parses a host with or without a port; port 0 is refused.
    fn parse(text: &str) -> Result<Sender, String> {
        if let Ok(Endpoint { host, port: port @ 1.. }) = text.parse() {
            return Ok(Sender { host, port: Some(port) });
        }
        let host = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
        if !crate::endpoint::is_host(host) {
            let reason = format!("`{text}` is neither a host nor a host with a port");
            return Err(wrong(reason, "write \"192.168.10.16\" or \"192.168.10.16:4660\""));
        }
        Ok(Sender { host: host.to_owned(), port: None })
    }
}

impl GivenPackets {
    /// Returns the layout, or notes what is wrong with it.
    fn checked(&self, source: &Section<'_>, order: ByteOrder) -> Option<PacketLayout> {
        let read = |key: &str, field: &Option<GivenField>| match field {
            Some(field) => field.checked(source, &format!("input.packets.{key}"), order).map(Some),
            None if source.has(&format!("input.packets.{key}")) => None,
            None => Some(None),
        };
        let number = read("number", &self.number);
        let (count, last) = (read("count", &self.count), read("last", &self.last));
        let (offset, total) = (read("offset", &self.offset), read("total", &self.total));
        // All are read before the first one is given up, so that all mistakes are noted.
        let (number, count, last, offset, total) = (number?, count?, last?, offset?, total?);
        match (number, offset, total) {
            (Some(number), None, None) => self.numbered(source, number, count, last),
            (None, Some(offset), Some(total)) => {
                let keys =
                    ["first", "count", "fixed_count", "last"].map(|key| format!("input.packets.{key}"));
                let unused_keys: Vec<_> = keys.iter().filter(|key| source.has(key)).collect();
                for key in &unused_keys {
                    let name = key.trim_start_matches("input.packets.");
                    let remedy =
                        format!("remove `{name}`, or give `number` in place of `offset` and `total`");
                    let reason = format!("packets with an `offset` have no numbers, so `{name}` is not used");
                    source.refuse(key, reason, remedy);
                }
                unused_keys.is_empty().then_some(PacketLayout::Placed { offset, total })
            }
            _ => {
                let reason = "the keys of `packets` do not tell where a packet belongs in its fragment";
                let remedy = "give either `number` with one of `count`, `fixed_count` and `last`, or `offset` with `total`, but not both";
                source.refuse("input.packets", reason, remedy);
                None
            }
        }
    }

    /// Returns the layout of numbered packets. Exactly one key must tell how many packets a
    /// fragment has.
    fn numbered(
        &self,
        source: &Section<'_>,
        number: FrameField,
        count: Option<FrameField>,
        last: Option<FrameField>,
    ) -> Option<PacketLayout> {
        let end = match (count, self.fixed_count, last) {
            (Some(count), None, None) => LastPacket::Count(count),
            (None, Some(count), None) => LastPacket::Fixed(count),
            (None, None, Some(last)) => LastPacket::Mark(last),
            (None, None, None) if source.is_wrong("input.packets.fixed_count") => return None,
            _ => {
                let reason = "one key has to tell how many packets a fragment has";
                let remedy = "give one of count = { at = 6, bytes = 2 }, fixed_count = 58 and last = { at = 6, bits = \"7\" }";
                source.refuse("input.packets", reason, remedy);
                return None;
            }
        };
        Some(PacketLayout::Numbered { number, first: self.first.unwrap_or(0).into(), end })
    }
}

/// An input of datagrams, as the configuration gives it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GivenDatagrams {
    /// The address and port at which the datagrams arrive.
    #[serde(with = "As::<Address>")]
    listen: Endpoint,
    /// The multicast group to which the boards send, with the port of `listen`.
    ///
    /// Default: none
    #[serde(default, with = "As::<Host>")]
    group: Option<String>,
    /// The network interface on which the source joins the group, by its address or name.
    #[serde(default, with = "As::<Host>")]
    interface: Option<String>,
    /// The only sender whose datagrams are used: a host, or a host and a port. Several sources may
    /// listen at one address if each names another sender with its port.
    ///
    /// Default: all senders
    #[serde(default, with = "As::<SenderAddress>")]
    from: Option<Sender>,
    /// The [layout of the frames](#frame) that the boards send. Without `length`, `payload` and
    /// `delimiter`, a frame ends with its datagram.
    frame: GivenFrame,
    /// The [packets](#packets) of which a fragment consists.
    ///
    /// Default: none: each datagram has whole frames
    packets: Option<GivenPackets>,
    /// The fate of a fragment of which packets were lost.
    ///
    /// Default: `"drop"`
    on_loss: Option<GivenOnLoss>,
    /// The number of bytes that may wait in the socket.
    ///
    /// Default: `"8 MiB"`
    #[serde(default, with = "As::<Positive<Bytes>>")]
    receive_buffer: Option<Bytes>,
    /// The treatment of fragments that arrive before the run has started.
    ///
    /// Default: `"discard"` under run control or with `on_start`, else `"keep"`
    #[serde(default, with = "As::<Word<BeforeStart>>")]
    before_start: Option<BeforeStart>,
    /// The [action](#on_start-and-on_stop) for which the start of a run waits.
    pub(super) on_start: Option<GivenHook>,
    /// The action after the end of a run.
    pub(super) on_stop: Option<GivenHook>,
}

impl GivenDatagrams {
    /// Returns the input, after checks.
    pub(super) fn checked(self, source: &Section<'_>) -> Option<Input> {
        let Self {
            listen,
            group,
            interface,
            from,
            frame,
            packets,
            on_loss,
            receive_buffer,
            before_start,
            ..
        } = self;
        let address = group.as_ref().and_then(|group| group.parse().ok()).filter(IpAddr::is_multicast);
        match (&group, address) {
            (Some(group), None) => {
                let reason = format!("`{group}` is not the address of a multicast group");
                source.refuse(
                    "input.group",
                    reason,
                    "write one from 224.0.0.0/4 or ff00::/8, without a port",
                );
            }
            (Some(_), Some(address)) => {
                let group = SocketAddr::new(address, listen.port);
                let joined = MulticastGroup { group, interface: interface.clone() };
                joined.check(source, "input.group", "input.interface");
            }
            (None, _) => {
                source.allow_host("input.listen", &listen.host);
                if source.has("input.interface") && !source.has("input.group") {
                    let reason = "`interface` belongs to `group`: it says where the source joins a multicast group, and none is given";
                    source.refuse(
                        "input.interface",
                        reason,
                        "remove `interface`, or add group = \"239.1.2.3\"",
                    );
                }
            }
        }
        if listen.port == 0 {
            let reason = "port 0 lets the system choose a port, and the boards would not know which";
            source.refuse("input.listen", reason, "write the port to which the boards send");
        }
        let (frame, on_loss) = datagram_layout(source, frame, packets, on_loss)?;
        let receive_buffer = receive_buffer.unwrap_or(USUAL_BUFFER);
        let place = DatagramPlace { listen, group: address, interface, from, receive_buffer, on_loss };
        Some(Input::Board { place: BoardPlace::Udp(place), before_start, frame })
    }
}

/// Returns the layout of datagrams, and what becomes of a fragment that lacks some, after checks.
pub(super) fn datagram_layout(
    source: &Section<'_>,
    frame: GivenFrame,
    packets: Option<GivenPackets>,
    on_loss: Option<GivenOnLoss>,
) -> Option<(FrameLayout, OnLoss)> {
    if !source.has("input.frame") {
        return None; // Noted before.
    }
    if on_loss.is_some() && !source.has("input.packets") {
        let reason = "`on_loss` belongs to `packets`: without them, each datagram is a fragment, and comes whole or not at all";
        source.refuse("input.on_loss", reason, "remove `on_loss`, or add `packets`");
    }
    let has_packets = source.has("input.packets");
    let packets = match packets {
        Some(packets) => Some(packets.checked(source, frame.order())?),
        None if has_packets => return None,
        None => None,
    };
    let frame = frame.checked_datagram(source, packets)?;
    Some((frame, on_loss.map(Into::into).unwrap_or_default()))
}
