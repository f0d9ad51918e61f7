use std::task::Poll;

use bytes::BytesMut;
use tokio::net::{TcpListener, TcpStream};

use super::{BuilderEnd, OUTGOING_LIMIT};
use crate::lane::LaneEnd;

#[tokio::test]
async fn a_source_that_does_not_read_loses_its_lane() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let mut end = BuilderEnd::new(stream);
    // The queue holds more bytes than the kernel's socket buffers take.
    end.outgoing = BytesMut::zeroed(64 << 20);
    let flushed = std::future::poll_fn(|cx| match end.poll_flush(cx) {
        Poll::Pending => panic!("{} bytes wait, {OUTGOING_LIMIT} may", end.outgoing.len()),
        Poll::Ready(result) => Poll::Ready(result),
    });
    assert!(matches!(flushed.await, Err(LaneEnd::Overflow)));
    drop(silent);
}
