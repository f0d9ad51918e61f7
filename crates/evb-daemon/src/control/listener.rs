//! The requests to run control.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use evb::run_control::RunControl;
use evb_net::handshake::RefusalLog;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming};
use tokio::{net::TcpListener, sync::Mutex, time::timeout};

use super::{
    answer::Answer,
    connection_limit::Busy,
    connections::{PATIENCE, serve},
    guard::{Guard, is_look},
    page,
    rendered::Rendered,
    routes,
};
use crate::hooks::Hooks;

/// Limit of the number of open connections. For one more connection, an idle one is closed.
const CONNECTIONS: usize = 32;

/// Length of the longest body of a request, in bytes.
const BODY: usize = 16 << 10;

struct Desk {
    lead: RunControl,
    rendered: Rendered,
    guard: Arc<Guard>,
    log: Mutex<RefusalLog>,
}

/// Answers requests on a thread of its own until the process ends.
pub(super) fn start(
    bound: std::net::TcpListener,
    (lead, hooks): (RunControl, Hooks),
    guard: Arc<Guard>,
) -> io::Result<()> {
    bound.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rendered = Rendered::new(lead.clone(), hooks);
    let desk = Arc::new(Desk { lead, rendered, guard, log: Mutex::new(RefusalLog::new("run control")) });
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(bound) {
                Ok(listener) => {
                    let answer = move |peer, request, busy| {
                        let desk = Arc::clone(&desk);
                        async move { serve_one(&desk, peer, request, &busy).await }
                    };
                    serve(listener, CONNECTIONS, answer).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "run control cannot accept connections, so the page and `evbd ctl` do not work while the run goes on: {error}; end evbd with SIGTERM, which ends the run in order, and start it again")
                }
            }
        });
    })?;
    Ok(())
}

/// Answers one request with a file of the page or an answer of run control.
async fn serve_one(
    desk: &Desk,
    peer: SocketAddr,
    request: Request<Incoming>,
    busy: &Busy,
) -> Response<Full<Bytes>> {
    if is_look(request.method())
        && let Some(asset) = page::asset(request.uri().path())
    {
        let (head, _) = request.into_parts();
        return match desk.guard.check_site(&head) {
            Ok(()) => asset.into_response(),
            Err(answer) => {
                desk.log
                    .lock()
                    .await
                    .record(format_args!("refused a request of the client {peer}"), &answer.in_words());
                answer.into_response()
            }
        };
    }
    respond(desk, peer, request, busy).await.into_response()
}

/// Answers a request: checks who asks, reads the body within limits, and logs what was not only a
/// look.
async fn respond(desk: &Desk, peer: SocketAddr, request: Request<Incoming>, busy: &Busy) -> Answer {
    let (head, body) = request.into_parts();
    let access = match desk.guard.check(&head) {
        Ok(access) => access,
        Err(answer) => {
            desk.log
                .lock()
                .await
                .record(format_args!("refused a request of the client {peer}"), &answer.in_words());
            return answer;
        }
    };
    if is_look(&head.method)
        && let Some(answer) = routes::look(&desk.rendered, access, &head).await
    {
        return answer;
    }
    let body = match timeout(PATIENCE, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            let (reason, remedy) = if error.is::<LengthLimitError>() {
                ("the body of the request is longer than 16 KiB", "send a body of at most 16 KiB")
            } else {
                (
                    "the body of the request did not arrive whole",
                    "send it again, and look at the network and a proxy in between",
                )
            };
            return Answer::turned_away(StatusCode::PAYLOAD_TOO_LARGE, reason, remedy);
        }
        Err(_) => {
            return Answer::turned_away(
                StatusCode::REQUEST_TIMEOUT,
                "the body of the request did not arrive within 5 s",
                "send it without a pause, and look whether the network is slow",
            );
        }
    };
    busy.set(true);
    let answer = routes::answer(&desk.lead, &head.method, head.uri.path(), &body).await;
    busy.set(false);
    if !is_look(&head.method) {
        desk.rendered.forget().await;
        let (method, path, status) = (&head.method, head.uri.path(), answer.status);
        let words = match status.is_success() {
            true => format!("run control carried out {method} {path}, as the client {peer} asked"),
            false => {
                format!("run control refused {method} {path} of the client {peer}: {}", answer.in_words())
            }
        };
        tracing::info!(%peer, %method, path, status = status.as_u16(), "{words}");
    }
    answer
}
