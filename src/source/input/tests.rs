use evb_core::fragment::Timestamp;

use super::*;

fn fragment(event: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::default(), vec![7; 100])
}

#[tokio::test]
async fn a_push_that_is_given_up_keeps_nothing_of_the_backlog() {
    let (intake, outlet) = intake(Bytes::new(100), Bytes::mib(1));
    for event in 1..=CHANNEL as u64 {
        intake.push(fragment(event)).await.expect("there is room");
    }
    let free = outlet.permits.available_permits();
    assert!(free > 0);
    tokio::select! {
        biased;
        pushed = intake.push(fragment(5000)) => panic!("nobody takes what is in the channel: {pushed:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(outlet.permits.available_permits(), free);
}
