use std::{net::IpAddr, task::Poll, time::Duration};

use evb_core::{
    id::EventId,
    index::LaneIndex,
    lane::Taken,
    time::Instant,
    wire::datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use self::rig::{ASSOCIATION, Rig, content, ethernet, streams};
use super::*;
use crate::{
    clock,
    udp::{UdpOptions, open},
};

mod end;
mod path;
mod protected;
mod rig;
mod strangers;

async fn a_lane_goes_over(local: &str) {
    let lengths = [0, 84, 1, 100_000, 1376, 1377, 0, 700_000];
    let mut rig = Rig::new(local).await;
    rig.push(&lengths);
    rig.run(|rig| rig.events.len() == lengths.len() && rig.source.uncommitted() == 0).await;
    assert!(rig.ended.is_empty(), "{:?}", rig.ended);
    for (event, (number, length)) in rig.events.iter().zip((1..).zip(lengths)) {
        let fragment = event.fragments().next().unwrap();
        assert!(event.is_complete() && event.id == EventId::new(number), "{event:?}");
        assert!(fragment.payload == content(event.id, length), "event {number}");
    }
    let counted = rig.core.datagram_counters(LaneIndex::new(0));
    assert!(counted.segments > 800_000 / 1472, "{counted:?}");
    assert_eq!(rig.builder.report(), Default::default(), "nothing came that was nobody's");
}

#[tokio::test]
async fn data_announcements_grants_and_commits_go_over() {
    a_lane_goes_over("127.0.0.1").await;
}

#[tokio::test]
async fn so_they_do_over_ipv6() {
    let Some(()) = evb_needs::granted(evb_needs::ipv6()) else { return };
    a_lane_goes_over("::1").await;
}

#[tokio::test]
async fn what_a_lost_datagram_held_is_sent_again() {
    let mut rig = Rig::new("127.0.0.1").await;
    rig.push(&[30_000; 40]);
    // A relay on the path damages every 50th datagram of the source.
    rig.damage_each(50, true).await;
    rig.run(|rig| rig.events.len() == 40 && rig.source.uncommitted() == 0).await;
    assert!(rig.events.iter().all(|event| event.is_complete()));
    let (damaged, counted) = (rig.builder.report().damaged, rig.core.datagram_counters(LaneIndex::new(0)));
    assert!(damaged > 5, "{damaged}");
    assert!(counted.recovery.resends > 0 && counted.recovery.lost_bytes > 0, "{counted:?}");
}

/// Grants and commits do not wait in the builder: those of a lost datagram are written again.
#[tokio::test]
async fn what_a_lost_datagram_of_the_builder_held_is_sent_again() {
    let mut rig = Rig::new("127.0.0.1").await;
    rig.push(&[30_000; 40]);
    rig.damage_each(3, false).await;
    rig.run(|rig| rig.events.len() == 40 && rig.source.uncommitted() == 0).await;
    assert!(rig.events.iter().all(|event| event.is_complete()));
}
