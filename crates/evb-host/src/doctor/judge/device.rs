//! Findings about a network device: its speed, its settings and its driver.

use std::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_net::host::{Fact, Unavailable};
use serde_json::json;

use super::{
    super::{
        facts::{Demand, DeviceFacts},
        finding::{Finding, Subject},
    },
    brief,
};
use crate::ethtool::{Feature, Line, Offloads};

pub(super) fn findings(device: &DeviceFacts, demand: Option<&Demand>) -> Vec<Finding> {
    vec![
        link(device),
        speed(device, demand),
        mtu(device, demand),
        offloads(device),
        coalescing(device, demand),
        rings(device, demand),
        pause(device),
    ]
}

pub(super) fn subject(device: &DeviceFacts) -> Subject {
    Subject::Device(device.link.name.clone())
}

/// Returns the fact, or the reason why the loopback device does not have it.
fn of_hardware<'f, T>(device: &DeviceFacts, fact: &'f Fact<T>) -> Result<&'f T, Unavailable> {
    match fact {
        Err(_) if device.link.loopback => Err(Unavailable::new("the loopback is no hardware")),
        fact => fact.as_ref().map_err(Clone::clone),
    }
}

fn link(device: &DeviceFacts) -> Finding {
    let link = &device.link;
    let state = match (link.up, link.carrier) {
        (false, _) => "down",
        (true, Some(false)) => "up, no carrier",
        (true, _) => "up",
    };
    let driver = match (&device.driver, &link.kind) {
        (Ok(driver), _) => Some(driver),
        (_, kind) => kind.as_ref(),
    };
    let value = driver.map_or_else(|| state.to_owned(), |driver| format!("{state}, {driver}"));
    let finding = Finding::new(subject(device), "link", value, "peers are reached through it").data(json!({
        "up": link.up, "carrier": link.carrier, "kind": link.kind, "driver": device.driver.as_ref().ok(), "index": link.index,
    }));
    match (link.up, link.carrier) {
        (false, _) => finding.bad(Some(format!("ip link set {} up", link.name))),
        (true, Some(false)) => {
            let why =
                "peers are reached through it, but the port is dead: look at its cable and at the switch"
                    .to_owned();
            Finding { why, ..finding.bad(None) }
        }
        (true, _) => finding.good(),
    }
}

/// Kinds of devices whose drivers report a speed that nothing enforces.
const NOMINAL: [&str; 2] = ["veth", "tun"];

fn speed(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) = ("speed", "admission control and budgets follow from the rate of the link");
    let about = subject(device);
    let line = match of_hardware(device, &device.line) {
        Ok(Line { rate: None, .. }) => {
            return Finding::missing(
                about,
                name,
                &Unavailable::new("the driver does not know the speed"),
                why,
            );
        }
        Ok(line) => line,
        Err(reason) => return Finding::missing(about, name, &reason, why),
    };
    let rate = line.rate.unwrap_or(Rate::from_bits_per_second(0));
    let duplex = match line.full_duplex {
        Some(true) => ", full duplex",
        Some(false) => ", half duplex",
        None => ", duplex unknown",
    };
    let is_nominal = device.link.kind.as_deref().is_some_and(|kind| NOMINAL.contains(&kind));
    let note = if is_nominal { " in name only; nothing enforces it" } else { "" };
    let finding = Finding::new(about, name, format!("{rate}{duplex}{note}"), why).data(json!({
        "bits_per_second": rate.bits_per_second(), "full_duplex": line.full_duplex, "nominal": is_nominal,
    }));
    if is_nominal {
        return finding;
    }
    if line.full_duplex == Some(false) {
        let why = "in half duplex, both directions collide, which no shaping prevents".to_owned();
        let command = format!("ethtool -s {} duplex full autoneg on", device.link.name);
        return Finding { why, ..finding.bad(Some(command)) };
    }
    match demand.and_then(|demand| demand.link_rate) {
        Some(asked) if rate < asked => {
            let why = format!(
                "the configuration assumes {asked}, so its budgets and sums are wrong: correct link_rate, or look why the link is slower"
            );
            Finding { why, ..finding.bad(None) }
        }
        _ => finding.good(),
    }
}

fn mtu(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) = ("MTU", "headers count in budgets: packets must be as large as the configuration says");
    let about = subject(device);
    let Some(mtu) = device.link.mtu else {
        return Finding::missing(about, name, &Unavailable::new("the kernel does not report it"), why);
    };
    let finding = Finding::new(about, name, mtu.to_string(), why).data(json!(mtu));
    let Some(demand) = demand.filter(|_| !device.link.loopback) else { return finding.good() };
    let asked = demand.mtu.count();
    if u64::from(mtu) >= asked {
        return finding.good();
    }
    let why = format!("the configuration says {asked}: write mtu = {mtu} in [network], or set the device");
    let command = Some(format!("ip link set {} mtu {asked}", device.link.name));
    let finding = Finding { why, ..finding };
    // TCP adapts to a smaller MTU with smaller packets, whose headers use some of the budget's
    // margin. Datagrams larger than the MTU are not sent.
    if demand.by_datagrams { finding.bad(command) } else { finding.better(command) }
}

fn offloads(device: &DeviceFacts) -> Finding {
    let name = "offloads";
    let why = "a train of packets takes one trip through the kernel, not one for each packet: ten times the rate for UDP";
    let offloads = match &device.offloads {
        Ok(offloads) => offloads,
        Err(reason) => return Finding::missing(subject(device), name, reason, why),
    };
    let Offloads { tso, gso, gro, udp } = offloads;
    let word = |feature: &Feature| match (feature.on, feature.fixed) {
        (true, _) => "on",
        (false, true) => "off (fixed)",
        (false, false) => "off",
    };
    let mut value = format!("TSO {}, GSO {}, GRO {}", word(tso), word(gso), word(gro));
    if let Some(udp) = udp {
        value += &format!(", UDP {}", word(udp));
    }
    let data = |feature: &Feature| json!({ "on": feature.on, "fixed": feature.fixed });
    let finding = Finding::new(subject(device), name, value, why).data(json!({
        "tso": data(tso), "gso": data(gso), "gro": data(gro), "udp": udp.as_ref().map(data),
        "gso_max_size": device.link.gso_max_size, "gso_max_packets": device.link.gso_max_packets,
    }));
    // The verdict depends only on GSO and GRO. Without TSO or UDP segmentation in the device, the
    // kernel segments, which costs little more.
    let switch = [("gso", gso), ("gro", gro)];
    let off: Vec<&str> =
        switch.iter().filter(|(_, feature)| !feature.on && !feature.fixed).map(|(word, _)| *word).collect();
    if gso.on && gro.on {
        finding.good()
    } else if off.is_empty() {
        let why = format!("{why}; this device cannot, so use another one where the rate matters");
        Finding { why, ..finding.better(None) }
    } else {
        let words: Vec<String> = off.iter().map(|word| format!("{word} on")).collect();
        finding.better(Some(format!("ethtool -K {} {}", device.link.name, words.join(" "))))
    }
}

/// Longest good delay of an interrupt if there is no configuration: about the time of a packet
/// through a quick host.
const LONG_WAIT: Duration = Duration::from_micros(20);

fn coalescing(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) =
        ("coalescing", "the time that a packet waits for its interrupt is part of each grant's round trip");
    let about = subject(device);
    let coalescing = match of_hardware(device, &device.coalescing) {
        Ok(coalescing) => coalescing,
        Err(reason) => return Finding::missing(about, name, &reason, why),
    };
    let adaptive = if coalescing.adaptive_receive { ", adaptive" } else { "" };
    let value = format!(
        "receive {} µs or {} packets{adaptive}, send {} µs or {}",
        coalescing.receive_micros,
        coalescing.receive_packets,
        coalescing.send_micros,
        coalescing.send_packets
    );
    let finding = Finding::new(about, name, value, why).data(json!({
        "receive_us": coalescing.receive_micros, "receive_packets": coalescing.receive_packets,
        "send_us": coalescing.send_micros, "send_packets": coalescing.send_packets,
        "adaptive_receive": coalescing.adaptive_receive, "adaptive_send": coalescing.adaptive_send,
    }));
    // If the first packet already causes an interrupt, the configured delay has no effect.
    let waits = coalescing.receive_packets != 1 || coalescing.adaptive_receive;
    let wait = Duration::from_micros(coalescing.receive_micros.into());
    // Interrupt delays apply to a grant and to its data. The two delays together may take a quarter
    // of the time in which the link carries the budget.
    let room =
        demand.and_then(|demand| Some(demand.under_way? / demand.link_rate?)).map(|drain| drain / 4 / 2);
    let allowed = room.unwrap_or(LONG_WAIT);
    if !waits || (wait <= allowed && !coalescing.adaptive_receive) {
        return finding.good();
    }
    let micros = allowed.min(LONG_WAIT).as_micros() / 2;
    let command = format!("ethtool -C {} adaptive-rx off rx-usecs {micros}", device.link.name);
    let finding = finding.better(Some(command));
    match room {
        Some(room) => Finding { why: format!("{why}; this budget leaves {}", brief(room)), ..finding },
        None => finding,
    }
}

fn rings(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let name = "rings";
    let why = "what arrives while the kernel is busy waits in the receive ring, or is lost in this host";
    let about = subject(device);
    let rings = match of_hardware(device, &device.rings) {
        Ok(rings) => rings,
        Err(reason) => return Finding::missing(about, name, &reason, why),
    };
    let value = format!(
        "receive {} of at most {}, send {} of {}",
        rings.receive, rings.receive_most, rings.send, rings.send_most
    );
    let finding = Finding::new(about, name, value, why).data(json!({
        "receive": rings.receive, "receive_most": rings.receive_most, "send": rings.send, "send_most": rings.send_most,
    }));
    let holds = Bytes::new(u64::from(device.link.mtu.unwrap_or(1500))) * u64::from(rings.receive);
    let bounded = demand.and_then(|demand| demand.port_buffer.and(demand.under_way));
    if rings.receive >= rings.receive_most || bounded.is_some_and(|under_way| holds >= under_way) {
        finding.good()
    } else {
        finding.better(Some(format!("ethtool -G {} rx {}", device.link.name, rings.receive_most)))
    }
}

fn pause(device: &DeviceFacts) -> Finding {
    let name = "pause frames";
    let why = "a pause stops all lanes of a link because of one; evb drops nothing without pause frames";
    let about = subject(device);
    let pause = match of_hardware(device, &device.pause) {
        Ok(pause) => pause,
        Err(reason) => return Finding::missing(about, name, &reason, why),
    };
    let word = |set: bool| if set { "on" } else { "off" };
    let agreed = if pause.negotiated { ", as negotiated" } else { "" };
    let mut value = format!("obeys {}, asks {}{agreed}", word(pause.obeys), word(pause.asks));
    let counters = device.pause_counters.as_deref().unwrap_or_default();
    for (counter, count) in counters.iter().take(3) {
        value += &format!(", {counter} {count}");
    }
    let finding = Finding::new(about, name, value, why).data(json!({
        "negotiated": pause.negotiated, "obeys": pause.obeys, "asks": pause.asks,
        "counters": device.pause_counters.as_ref().ok(),
    }));
    if pause.obeys || pause.asks {
        finding.better(Some(format!("ethtool -A {} autoneg off rx off tx off", device.link.name)))
    } else {
        finding.good()
    }
}
