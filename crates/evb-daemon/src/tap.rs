//! The taps of this process's builders, served over HTTP: each on a thread of its own, so that no
//! client can delay a builder.

mod requests;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use evb::tap::{Tap, TapOptions};
use evb_config::{Endpoint, TapEntry};
use evb_core::id::BuilderId;
use tokio::{net::TcpListener, runtime, sync::oneshot, time::Instant};

use crate::control::{Guard, Token, TokenError, serve};
use requests::Desk;
pub(crate) use requests::{CLIENT, COUNTS, EVENTS, TRAILERS};

/// Number of connections beside those that show events, for requests that are short.
const SHORT: usize = 16;

/// Time in which clients may take what waits for them when the process ends.
const GRACE: Duration = Duration::from_secs(1);

/// Pause between two looks at the clients.
const LOOK: Duration = Duration::from_millis(10);

/// The taps that this process serves, run after run.
#[derive(Clone, Default)]
pub(crate) struct Taps(Arc<Mutex<BTreeMap<BuilderId, ServedTap>>>);

/// The reason why a tap cannot be served.
#[derive(Debug, thiserror::Error)]
enum TapServerError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "it cannot listen on {address}: {reason}; give a free address of this host as `builder.tap.listen`, or stop the program that uses this one"
    )]
    Listen { address: Endpoint, reason: io::Error },
}

/// A tap with its server, which ends when this is dropped.
struct ServedTap {
    entry: TapEntry,
    tap: Tap,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Taps {
    /// Returns the tap of a builder, which is served from now on until [`Self::end`]. `names` are
    /// other names of this host. Without its tap, a builder builds all the same.
    pub(crate) fn of(&self, builder: BuilderId, entry: &TapEntry, names: &[String]) -> Option<Tap> {
        let mut taps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(served) = taps.get(&builder).filter(|served| served.entry == *entry) {
            return Some(served.tap.clone());
        }
        // The server of an entry that has changed leaves its address.
        taps.remove(&builder);
        match ServedTap::start(builder, entry, names) {
            Ok(served) => {
                let tap = served.tap.clone();
                taps.insert(builder, served);
                Some(tap)
            }
            Err(error) => {
                tracing::warn!(%builder, %error, "the tap of builder {builder} is not served in this run: {error}; the builder takes part without it, and its tap is tried again at the next run");
                None
            }
        }
    }

    /// Ends all servers, after clients have taken what waits for them, or a moment has passed.
    pub(crate) fn end(&self) {
        let ended = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ended: Vec<ServedTap> = ended.into_values().collect();
        ended.iter_mut().for_each(|served| drop(served.stop.take()));
    }
}

impl ServedTap {
    /// Starts a tap and the thread that serves it.
    fn start(builder: BuilderId, entry: &TapEntry, names: &[String]) -> Result<Self, TapServerError> {
        let token = entry.key_file.as_deref().map(Token::read).transpose()?;
        let tap = Tap::new(TapOptions {
            sample: entry.sample.fraction(),
            max_rate: entry.max_rate,
            clients: entry.clients,
            address: entry.listen.to_string(),
        });
        let fault = |reason| TapServerError::Listen { address: entry.listen.clone(), reason };
        let bound = std::net::TcpListener::bind((entry.listen.host.as_str(), entry.listen.port));
        let bound = bound.map_err(fault)?;
        bound.set_nonblocking(true).map_err(fault)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(fault)?;
        let guard = Guard::of_tap(token, names.iter().chain([&entry.listen.host]).cloned());
        let desk = Arc::new(Desk::new(builder, tap.clone(), guard));
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name(format!("tap {builder}"));
        let thread = thread.spawn(move || runtime.block_on(attend(bound, desk, stopped))).map_err(fault)?;
        Ok(Self { entry: entry.clone(), tap, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ServedTap {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A crash of the thread was reported when it happened.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Answers requests until `stopped`, and then lets clients take what waits for them.
async fn attend(bound: std::net::TcpListener, desk: Arc<Desk>, stopped: oneshot::Receiver<()>) {
    let listener = match TcpListener::from_std(bound) {
        Ok(listener) => listener,
        Err(error) => {
            return tracing::warn!(%error, "the tap of builder {} cannot accept connections: {error}; the run goes on, and nobody can look at the events of this builder until evbd is started again", desk.builder);
        }
    };
    let most = desk.tap.options().clients + SHORT;
    let at_desk = Arc::clone(&desk);
    let answer = move |peer, request, busy| {
        let desk = Arc::clone(&at_desk);
        async move { desk.answer(peer, request, busy).await }
    };
    tokio::select! {
        () = serve(listener, most, answer) => {}
        // An error means that there is no sender any more.
        _ = stopped => {}
    }
    let until = Instant::now() + GRACE;
    // Each connection holds the desk until its client has got the whole answer.
    while Arc::strong_count(&desk) > 1 && Instant::now() < until {
        tokio::time::sleep(LOOK).await;
    }
}
