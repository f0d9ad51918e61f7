//! Rules about a network device: its speed, its settings and its driver.

use std::time::Duration;

use evb_core::units::Bytes;
use evb_net::host::{Fact, Unavailable};
use serde_json::json;

use super::{
    super::{
        facts::{Demand, DeviceFacts},
        finding::Judgement,
    },
    rule::{brief, known},
};
use crate::ethtool::{Feature, Offloads};

/// Returns the fact, or the reason why the loopback device does not have it.
fn of_hardware<'f, T>(device: &DeviceFacts, fact: &'f Fact<T>) -> Fact<&'f T> {
    match fact {
        Err(_) if device.link.loopback => {
            Err(Unavailable::new("the loopback is no hardware: nothing needs to be done"))
        }
        fact => known(fact),
    }
}

/// Judges whether the device is up.
pub(super) fn link(device: &DeviceFacts, _: Option<&Demand>) -> Fact<Judgement> {
    let link = &device.link;
    let driver = device.driver.as_ref().ok();
    let is_dead = link.carrier == Some(false);
    let mut value = match (link.up, is_dead) {
        (false, _) => "down".to_owned(),
        (true, true) => "up, no carrier".to_owned(),
        (true, false) => "up".to_owned(),
    };
    if let Some(driver) = driver.or(link.kind.as_ref()) {
        value += &format!(", {driver}");
    }
    let judgement = Judgement::new(
        value,
        json!({ "up": link.up, "carrier": link.carrier, "kind": link.kind, "driver": driver, "index": link.index }),
    );
    Ok(match (link.up, is_dead) {
        (false, _) => judgement
            .bad(Some(format!("ip link set {} up", link.name)))
            .also(", and while it is down, no data passes"),
        (true, true) => {
            judgement.bad(None).also(", but the port is dead: look at its cable and at the switch")
        }
        (true, false) => judgement.good(),
    })
}

/// Kinds of devices whose drivers report a speed that nothing enforces.
const NOMINAL: [&str; 2] = ["veth", "tun"];

/// Judges the speed of the device against the configured rate.
pub(super) fn speed(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let line = of_hardware(device, &device.line)?;
    let rate = line.rate.ok_or_else(|| Unavailable::new("its driver reports no speed: see that the link is up, and write its rate as link_rate in [network]"))?;
    let duplex = match line.full_duplex {
        Some(true) => ", full duplex",
        Some(false) => ", half duplex",
        None => ", duplex unknown",
    };
    let is_nominal = device.link.kind.as_deref().is_some_and(|kind| NOMINAL.contains(&kind));
    let note = if is_nominal { ", which this virtual device only states" } else { "" };
    let judgement = Judgement::new(
        format!("{rate}{duplex}{note}"),
        json!({
            "bits_per_second": rate.bits_per_second(), "full_duplex": line.full_duplex, "nominal": is_nominal,
        }),
    );
    if is_nominal {
        return Ok(judgement.because(
            "a virtual device is as fast as what is behind it: write that rate as link_rate in [network], because budgets and checks follow from it",
        ));
    }
    if line.full_duplex == Some(false) {
        let judgement =
            judgement.because("in half duplex, both directions collide, which no shaping prevents");
        return Ok(judgement.bad(Some(format!("ethtool -s {} duplex full autoneg on", device.link.name))));
    }
    Ok(match demand.and_then(|demand| demand.link_rate) {
        Some(asked) if rate < asked => judgement.bad(None).because(format!(
            "the configuration assumes {asked}, more than this link carries, so its budgets are too large: write this rate as link_rate in [network], or repair the link"
        )),
        _ => judgement.good(),
    })
}

/// Judges the MTU of the device against the configured one.
pub(super) fn mtu(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let mtu = device.link.mtu.ok_or_else(|| {
        Unavailable::new("the kernel does not report this device's MTU; `ip link show` may show it")
    })?;
    let judgement = Judgement::new(format!("{mtu} B"), json!(mtu));
    let too_large = demand.filter(|demand| !device.link.loopback && u64::from(mtu) < demand.mtu.count());
    let Some(demand) = too_large else { return Ok(judgement.good()) };
    let asked = demand.mtu.count();
    let judgement = judgement.because(format!(
        "the configuration says mtu = {asked}, more than this device sends: write mtu = {mtu} in [network], or set the device"
    ));
    let command = Some(format!("ip link set {} mtu {asked}", device.link.name));
    // TCP adapts to a smaller MTU with smaller packets, whose headers use some of the budget's
    // margin. Datagrams larger than the MTU are not sent.
    Ok(if demand.by_datagrams { judgement.bad(command) } else { judgement.better(command) })
}

/// Judges the offloads of segmentation.
pub(super) fn offloads(device: &DeviceFacts, _: Option<&Demand>) -> Fact<Judgement> {
    let Offloads { tso, gso, gro, udp } = known(&device.offloads)?;
    let state = |feature: &Feature| match (feature.on, feature.fixed) {
        (true, _) => "on",
        (false, true) => "off (fixed)",
        (false, false) => "off",
    };
    let mut value = format!("TSO {}, GSO {}, GRO {}", state(tso), state(gso), state(gro));
    if let Some(udp) = udp {
        value += &format!(", UDP {}", state(udp));
    }
    let judgement = Judgement::new(
        value,
        json!({
            "tso": tso, "gso": gso, "gro": gro, "udp": udp,
            "gso_max_size": device.link.gso_max_size, "gso_max_packets": device.link.gso_max_packets,
        }),
    );
    // The verdict depends only on GSO and GRO. Without TSO or UDP segmentation in the device, the
    // kernel segments, which costs little more.
    if gso.on && gro.on {
        return Ok(judgement.good());
    }
    let mut command = format!("ethtool -K {}", device.link.name);
    for (name, feature) in [("gso", gso), ("gro", gro)] {
        if !feature.on && !feature.fixed {
            command += &format!(" {name} on");
        }
    }
    Ok(if command.ends_with("on") {
        judgement.better(Some(command))
    } else {
        judgement.better(None).also("; this device cannot, so use another one where the rate matters")
    })
}

/// Longest good delay of an interrupt if there is no configuration: about the time of a packet
/// through a quick host.
const LONG_WAIT: Duration = Duration::from_micros(20);

/// Judges how long the device delays its interrupts, against the time for which the budget fills
/// the link.
pub(super) fn coalescing(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let found = of_hardware(device, &device.coalescing)?;
    let adaptive = if found.adaptive_receive { ", adaptive" } else { "" };
    let value = format!(
        "receive {} µs or {} packets{adaptive}, send {} µs or {}",
        found.receive_micros, found.receive_packets, found.send_micros, found.send_packets
    );
    let judgement = Judgement::new(
        value,
        json!({
            "receive_us": found.receive_micros, "receive_packets": found.receive_packets,
            "send_us": found.send_micros, "send_packets": found.send_packets,
            "adaptive_receive": found.adaptive_receive, "adaptive_send": found.adaptive_send,
        }),
    );
    // If the first packet already causes an interrupt, the configured delay has no effect.
    let waits = found.receive_packets != 1 || found.adaptive_receive;
    let wait = Duration::from_micros(found.receive_micros.into());
    // Interrupt delays apply to a grant and to its data. The two delays together may take a quarter
    // of the time in which the link carries the budget.
    let room =
        demand.and_then(|demand| Some(demand.under_way? / demand.link_rate?)).map(|drain| drain / 4 / 2);
    let allowed = room.unwrap_or(LONG_WAIT);
    if !waits || (wait <= allowed && !found.adaptive_receive) {
        return Ok(judgement.good());
    }
    let micros = allowed.min(LONG_WAIT).as_micros() / 2;
    let command = format!("ethtool -C {} adaptive-rx off rx-usecs {micros}", device.link.name);
    let remark = room.map(|room| format!("; this budget leaves {}", brief(room)));
    Ok(judgement.better(Some(command)).also(remark.unwrap_or_default()))
}

/// Judges the receive ring, which must hold what may be under way.
pub(super) fn rings(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let rings = of_hardware(device, &device.rings)?;
    let value = format!(
        "receive {} of at most {}, send {} of {}",
        rings.receive, rings.receive_most, rings.send, rings.send_most
    );
    let judgement = Judgement::new(value, json!(rings));
    let holds = Bytes::new(u64::from(device.link.mtu.unwrap_or(1500))) * u64::from(rings.receive);
    let bounded = demand.and_then(|demand| demand.port_buffer.and(demand.under_way));
    Ok(if rings.receive >= rings.receive_most || bounded.is_some_and(|under_way| holds >= under_way) {
        judgement.good()
    } else {
        judgement.better(Some(format!("ethtool -G {} rx {}", device.link.name, rings.receive_most)))
    })
}

/// Judges the use of pause frames, which stop all lanes of a link at once.
pub(super) fn pause(device: &DeviceFacts, _: Option<&Demand>) -> Fact<Judgement> {
    let pause = of_hardware(device, &device.pause)?;
    let state = |set: bool| if set { "on" } else { "off" };
    let agreed = if pause.negotiated { ", as negotiated" } else { "" };
    let mut value = format!("obeys them: {}, sends them: {}{agreed}", state(pause.obeys), state(pause.asks));
    let counters = device.pause_counters.as_deref().unwrap_or_default();
    for (counter, count) in counters.iter().take(3) {
        value += &format!(", {counter} {count}");
    }
    let judgement = Judgement::new(
        value,
        json!({
            "negotiated": pause.negotiated, "obeys": pause.obeys, "asks": pause.asks,
            "counters": device.pause_counters.as_ref().ok(),
        }),
    );
    Ok(if pause.obeys || pause.asks {
        judgement.better(Some(format!("ethtool -A {} autoneg off rx off tx off", device.link.name)))
    } else {
        judgement.good()
    })
}
