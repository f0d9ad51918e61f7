//! [`Answers`]: what a front end of protocol 2 is told; `docs/reference/front-end.md` specifies the
//! messages.

#[cfg(test)]
mod tests;

use std::{
    future::pending,
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::{BufMut as _, BytesMut};
use evb_shaper::role::RunStage;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::watch,
    time::sleep,
};

use crate::source::ToldRun;

/// Length of a message.
const MESSAGE: usize = 32;
/// Time between two messages with the number of accepted fragments.
const PERIOD: Duration = Duration::from_millis(100);

/// Kind of a message to a front end.
#[derive(Clone, Copy)]
enum AnswerKind {
    /// The run begins, or is under way; the value is the first event id.
    Started = 1,
    /// No further trigger comes.
    Stopped = 2,
    /// The value is the number of accepted fragments.
    Accepted = 3,
}

/// The sending side of a front end's connection. Only what was told last waits for a front end that
/// does not read: at most three messages.
pub(super) struct Answers {
    socket: Box<dyn AsyncWrite + Unpin + Send>,
    unsent: BytesMut,
    /// The run as the front end was told.
    run: ToldRun,
    /// The number of accepted fragments as the front end was told.
    accepted: u64,
}

impl Answers {
    pub(super) fn new(socket: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (run, unsent) = (ToldRun::default(), BytesMut::with_capacity(3 * MESSAGE));
        Self { socket: Box::new(socket), unsent, run, accepted: 0 }
    }

    /// Tells the front end of the run, for ever; and of its accepted fragments, if `accepted` is
    /// given.
    ///
    /// Cancel safety: [`Self::finish`] may follow a call that was dropped.
    pub(super) async fn tell(&mut self, mut run: watch::Receiver<ToldRun>, accepted: Option<&AtomicU64>) {
        run.mark_changed();
        loop {
            tokio::select! {
                changed = run.changed() => if changed.is_err() { break },
                () = sleep(PERIOD), if accepted.is_some() => {}
            }
            let latest = *run.borrow_and_update();
            let sent = self.send(&latest, accepted).await;
            if sent.is_err() {
                break;
            }
        }
        // The other side of the connection says what is wrong.
        pending().await
    }

    /// Tells the front end the last state of the run and of its fragments.
    pub(super) async fn finish(&mut self, run: &ToldRun, accepted: &AtomicU64) -> io::Result<()> {
        self.send(run, Some(accepted)).await?;
        self.socket.shutdown().await
    }

    /// Sends what the front end does not know yet.
    async fn send(&mut self, run: &ToldRun, accepted: Option<&AtomicU64>) -> io::Result<()> {
        self.flush().await?;
        if self.run.stage == RunStage::Waiting && run.stage != RunStage::Waiting {
            self.put(AnswerKind::Started, run, run.first.number());
        }
        if run.stage == RunStage::Stopped && self.run.stage != RunStage::Stopped {
            self.put(AnswerKind::Stopped, run, 0);
        }
        self.run = *run;
        let accepted = accepted.map_or(self.accepted, |accepted| accepted.load(Ordering::Relaxed));
        if accepted != self.accepted {
            self.accepted = accepted;
            self.put(AnswerKind::Accepted, run, accepted);
        }
        self.flush().await
    }

    fn put(&mut self, kind: AnswerKind, run: &ToldRun, value: u64) {
        self.unsent.put_u32_le(kind as u32);
        self.unsent.put_u32_le(run.number.number());
        self.unsent.put_slice(&run.id.to_bytes());
        self.unsent.put_u64_le(value);
    }

    /// Sends all answers that are not sent yet.
    async fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            if self.socket.write_buf(&mut self.unsent).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}
