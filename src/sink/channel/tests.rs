use std::{pin::pin, task::Poll};

use super::*;

#[tokio::test]
async fn a_full_channel_makes_the_sink_wait_and_loses_nothing() {
    let (mut sink, mut events) = ChannelSink::new(2);
    let event = Event::default();
    sink.write(&event).await.unwrap();
    sink.write(&event).await.unwrap();
    {
        let mut third = pin!(sink.write(&event));
        std::future::poll_fn(|cx| {
            assert!(third.as_mut().poll(cx).is_pending(), "the channel is full");
            Poll::Ready(())
        })
        .await;
        assert!(events.recv().await.is_some());
        third.await.unwrap();
    }
    assert!(events.try_recv().is_some() && events.try_recv().is_some() && events.try_recv().is_none());
    drop(events);
    assert_eq!(
        sink.write(&event).await,
        Err(SinkError::lost("the part of the program that takes the events has ended"))
    );
}
