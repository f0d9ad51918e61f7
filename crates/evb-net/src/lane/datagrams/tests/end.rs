//! The TCP connection of the handshake: the end of the connection is the end of the lane.

use evb_core::index::LaneIndex;

use super::*;

/// Returns both ends of a lane that has carried an event.
async fn carried() -> Rig {
    let mut rig = Rig::new("127.0.0.1").await;
    rig.push(&[5000]);
    rig.run(|rig| rig.events.len() == 1).await;
    assert!(rig.ended.is_empty());
    rig
}

#[tokio::test]
async fn a_builder_that_closes_ends_the_sources_lane() {
    let mut rig = carried().await;
    rig.builder.close(LaneIndex::new(0));
    assert!(!rig.builder.is_open(LaneIndex::new(0)));
    rig.run(|rig| !rig.ended.is_empty()).await;
    assert!(matches!(rig.ended[0], (usize::MAX, LaneEnd::Closed)), "{:?}", rig.ended[0]);
}

#[tokio::test]
async fn a_source_that_closes_ends_the_builders_lane() {
    let mut rig = carried().await;
    let local = rig.address.ip();
    let (stream, _other) = streams(local).await;
    let socket = open((local, 0).into(), Some(rig.address), &UdpOptions::default()).unwrap();
    rig.end = SourceDatagrams::new(stream, socket, ethernet(local), None);
    rig.run(|rig| !rig.ended.is_empty()).await;
    assert!(matches!(rig.ended[0], (0, LaneEnd::Closed)), "{:?}", rig.ended[0]);
}

#[tokio::test]
async fn a_connection_that_speaks_is_no_more_trusted() {
    for source_speaks in [true, false] {
        let mut rig = carried().await;
        let local = rig.address.ip();
        let (mut stream, mut other) = streams(local).await;
        let socket = open((local, 0).into(), Some(rig.address), &UdpOptions::default()).unwrap();
        let speaker = if source_speaks { &mut stream } else { &mut other };
        speaker.write_all(b"hello again").await.unwrap();
        rig.end = SourceDatagrams::new(stream, socket, ethernet(local), None);
        rig.builder.open(LaneIndex::new(0), other);
        rig.run(|rig| !rig.ended.is_empty()).await;
        let at = if source_speaks { 0 } else { usize::MAX };
        assert!(matches!(rig.ended[0], (end, LaneEnd::NotSilent) if end == at), "{:?}", rig.ended[0]);
    }
}

#[test]
fn connections_are_numbered_so_that_nobody_guesses() {
    let drawn: std::collections::HashSet<_> = (0..1000).map(|_| draw_connection()).collect();
    assert!(drawn.len() > 990 && !drawn.contains(&0), "{} of 1000 differ", drawn.len());
}
