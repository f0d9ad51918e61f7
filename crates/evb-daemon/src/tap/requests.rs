//! The requests to a tap, and their answers.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use evb::tap::{Tap, TapCounts, TapError, TapStream, Wanted};
use evb_core::{id::BuilderId, quantities::split_remedy};
use evb_net::handshake::RefusalLog;
use http_body_util::{Either, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header::{CONNECTION, HeaderName, HeaderValue, TRAILER},
    http::request::Parts,
};
use serde_json::json;
use tokio::sync::Mutex;

use crate::control::{Answer, Busy, Guard, streamed};

/// Name of the refusing party in answers.
const TAP: &str = "the tap";

/// Header of a stream: the number of its client, by which [`COUNTS`] lists it.
pub(crate) const CLIENT: HeaderName = HeaderName::from_static("evb-tap-client");

/// Paths of the events and of the counts of the clients.
pub(crate) const EVENTS: &str = "/v1/events";
pub(crate) const COUNTS: &str = "/v1/counts";

/// The trailers of a stream, which say what became of the events.
pub(crate) const TRAILERS: [&str; 4] =
    ["evb-tap-seen", "evb-tap-sent", "evb-tap-sampled-out", "evb-tap-dropped"];

/// The parts that the answers to all clients share.
pub(super) struct Desk {
    pub(super) builder: BuilderId,
    pub(super) tap: Tap,
    guard: Guard,
    log: Mutex<RefusalLog>,
}

type Answered = Response<Either<Full<Bytes>, EventBody>>;

impl Desk {
    pub(super) fn new(builder: BuilderId, tap: Tap, guard: Guard) -> Self {
        Self { builder, tap, guard, log: Mutex::new(RefusalLog::new("a tap")) }
    }

    /// Answers a request, and closes the connection after it.
    pub(super) async fn answer(&self, peer: SocketAddr, request: Request<Incoming>, busy: Busy) -> Answered {
        let (head, _) = request.into_parts();
        let mut response = match self.guard.check(&head).and_then(|_| self.look(&head, busy)) {
            Ok(response) => response,
            Err(answer) => {
                let whose =
                    format!("refused a request of the client {peer} to the tap of builder {}", self.builder);
                self.log.lock().await.record(whose, &answer.in_words());
                answer.by(TAP).into_response().map(Either::Left)
            }
        };
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Returns the stream of events or the counts, or refuses the request.
    fn look(&self, head: &Parts, busy: Busy) -> Result<Answered, Answer> {
        match (&head.method, head.uri.path()) {
            (&Method::GET, EVENTS) => self.show(wanted(head.uri.query().unwrap_or_default())?, busy),
            (&Method::GET, COUNTS) => {
                let (connected, sum) = self.tap.totals();
                let options = self.tap.options();
                Ok(Answer::done(json!({
                    "builder": self.builder.number(),
                    "sample": options.sample,
                    "clients_at_most": options.clients,
                    "connected": connected,
                    "sum": sum,
                    "clients": self.tap.clients(),
                }))
                .into_response()
                .map(Either::Left))
            }
            _ => Err(Answer::turned_away(
                StatusCode::NOT_FOUND,
                "a tap has no such path, or takes no such method there",
                "use GET for /v1/events, /v1/events?sample=0.01, /v1/events?newest=1 and /v1/counts",
            )),
        }
    }

    /// Begins to show events to a client.
    fn show(&self, wanted: Wanted, busy: Busy) -> Result<Answered, Answer> {
        let refused = |error: TapError| {
            let status = match error {
                TapError::Share { .. } => StatusCode::BAD_REQUEST,
                TapError::Full { .. } => StatusCode::SERVICE_UNAVAILABLE,
            };
            let text = error.to_string();
            let (reason, remedy) = split_remedy(&text);
            Answer::turned_away(status, reason, remedy.unwrap_or_default())
        };
        let stream = self.tap.subscribe(wanted).map_err(refused)?;
        busy.set(true);
        let client = HeaderValue::from(stream.id());
        let mut response =
            streamed(Either::Right(EventBody { stream, is_over: false, busy }), "application/octet-stream");
        let headers = response.headers_mut();
        headers.insert(CLIENT, client);
        for name in TRAILERS {
            headers.append(TRAILER, HeaderValue::from_static(name));
        }
        Ok(response)
    }
}

/// Returns the events that a client wants, by the query of its request.
fn wanted(query: &str) -> Result<Wanted, Answer> {
    let mut wanted = Wanted::default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("sample", share)) if share.parse::<f64>().is_ok() => wanted.sample = share.parse().ok(),
            Some(("newest", "0" | "1")) => wanted.newest = part.ends_with('1'),
            _ => {
                let part: String = part.chars().take(80).collect();
                return Err(Answer::turned_away(
                    StatusCode::BAD_REQUEST,
                    &format!("the query of the request has `{part}`, which a tap does not know"),
                    "write for example /v1/events?sample=0.01 or /v1/events?newest=1",
                ));
            }
        }
    }
    Ok(wanted)
}

/// The body of an answer that shows events.
pub(super) struct EventBody {
    stream: TapStream,
    is_over: bool,
    busy: Busy,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    /// Returns the next events; after the last one, the counts of the stream as trailers.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(match ready!(self.stream.poll_next(cx)) {
            Some(bytes) => Frame::data(bytes),
            None => {
                self.is_over = true;
                Frame::trailers(trailers(self.stream.counts()))
            }
        })))
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.busy.set(false);
    }
}

fn trailers(TapCounts { seen, sent, sampled_out, dropped }: TapCounts) -> HeaderMap {
    let names = TRAILERS.map(HeaderName::from_static);
    names.into_iter().zip([seen, sent, sampled_out, dropped].map(HeaderValue::from)).collect()
}
