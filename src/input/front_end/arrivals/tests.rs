use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::*;

const BUFFER: usize = 64 << 10;

/// A front end that never stops sending keeps its listener waiting for a bounded number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_falls_silent_counts_as_read_after_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut flood = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let stream = Stream::Tcp(listener.accept().await.unwrap().0.into_split().0);
    tokio::spawn(async move { while flood.write_all(&[7; 4 * BUFFER]).await.is_ok() {} });

    let mut requests = Requests::new();
    let mut arrivals = requests.arrivals(stream);
    let (read, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, longest) = (Arc::clone(&read), Arc::clone(&most));
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = arrivals.read(&mut buffer).await {
            counter.fetch_add(count, Ordering::Relaxed);
            let since = arrivals.since_request.as_ref().map_or(0, |(_, since)| *since);
            longest.fetch_max(since, Ordering::Relaxed);
        }
    });
    let request = async {
        while read.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        requests.read_out().await;
    };
    timeout(Duration::from_secs(60), request).await.expect("the wait has an end");
    // If the sender was held up when the request came, the connection answered at once.
    reader.abort();
    let most = most.load(Ordering::Relaxed);
    assert!(most < MOST, "{most} bytes");
}
