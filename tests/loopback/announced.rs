//! Sources that make fragments when triggers are announced.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use evb::{
    id::SourceId,
    input::push_at_triggers,
    source::{Source, SourceConfig},
    trigger_feed::{TriggerFeed, TriggerListener},
};

use crate::support::{Numbers, assert_exact, begin, plan};

/// On a busy machine, events may be decided before the task that makes their fragments runs.
#[tokio::test]
async fn who_begins_late_makes_the_fragments_of_all_events_that_expect_them() {
    const EVENTS: u64 = 40;
    let system = begin(plan(1, 1, EVENTS)).await;
    let id = SourceId::new(1);
    let source = Source::connect(SourceConfig::new(id, &system.address)).await.expect("the source joins");
    let mut progress = system.supervisor.progress();
    let decided = progress.wait_for(|now| now.events.assigned > 0).await;
    decided.expect("the supervisor assigns what has slots");
    // After this pause, the source has received the announcement.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let triggers = TriggerListener::bind(&[any]).await.expect("loopback has a port");
    let mut feed =
        TriggerFeed::datagrams(triggers.address().expect("an address"), None).await.expect("a feed");
    feed.tell(EVENTS).await.expect("told");
    let making = tokio::spawn(push_at_triggers(triggers, Numbers { source: id, length: 100 }, source));
    let (built, report) = system.finish().await;
    assert_eq!(built.len() as u64, EVENTS, "{:?}", report.problems);
    assert_exact(&built, 1, 100);
    assert_eq!(report.exit_code, 0, "{}", report.verdict);
    making.await.expect("the task ends with the run");
}
