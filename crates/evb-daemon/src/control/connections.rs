//! HTTP connections. Connections are few, and none can keep the others waiting.

use std::{convert::Infallible, error::Error, net::SocketAddr, pin::pin, time::Duration};

use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::connection_limit::{Busy, ConnectionLimit, OpenConnection};

/// Time limit for the head of a request, for its body, and for the pause between two requests.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Time after which a connection is closed even if it is active, unless it is busy.
const LIFE: Duration = Duration::from_secs(60);

/// Length of the longest head of a request, in bytes; the library allows no smaller limit.
const HEAD: usize = 8192;

/// Accepts connections, and answers their requests. For one connection more than `most`, an idle
/// one is closed.
pub(crate) async fn serve<A, F, B>(listener: TcpListener, most: usize, answer: A)
where
    A: Fn(SocketAddr, Request<Incoming>, Busy) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let places = ConnectionLimit::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                keep_alive(&stream);
                let (answer, busy) = (answer.clone(), Busy::default());
                let own = busy.clone();
                let connection = tokio::spawn(async move {
                    let answer = |request| answer(peer, request, own.clone());
                    // The outcome is ignored: a failed connection concerns only its client.
                    let mut conversation = pin!(converse(stream, answer));
                    // A start takes as long as `on_start` of its sources, a stream as its run.
                    while timeout(LIFE, &mut conversation).await.is_err() && own.get() {}
                });
                places.take(
                    most,
                    OpenConnection { connection: connection.abort_handle(), from: peer.ip(), busy },
                );
            }
            // No file descriptor is free, or the client has closed the connection.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Lets the kernel find out that the host of an idle client is gone.
fn keep_alive(stream: &TcpStream) {
    // Without it, the client's place is taken for longer.
    let _ =
        set_socket_keepalive(stream, true).and_then(|()| set_tcp_keepidle(stream, Duration::from_secs(30)));
}

/// Answers the requests on a connection until it ends, with limits on the time and the size of
/// their heads.
async fn converse<F, B>(
    stream: TcpStream,
    answer: impl Fn(Request<Incoming>) -> F,
) -> Result<(), hyper::Error>
where
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
