//! [`StartGate`]: the question whether a run may begin, which the program that embeds the
//! supervisor answers.

#[cfg(test)]
mod tests;

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    id::{RunId, RunNumber},
    ledger::Annotation,
    supervisor::SupervisorRole,
    time::{Instant, Utc},
    wire::control::Begin,
};
use tokio::sync::{mpsc, oneshot};

/// Number of questions that may wait: those of runs whose beginning was given up.
const QUESTIONS: usize = 4;

/// Remark on a run whose question nobody could answer.
const NO_ANSWER: &str = "nobody could say whether the run may begin, so it began: read the log of the supervisor's process, and start that process again after the run";

/// The way to ask whether a run may begin.
///
/// ```
/// use evb::{prelude::*, supervisor::StartGate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (gate, mut starts) = StartGate::new();
/// tokio::spawn(async move {
///     while let Some(start) = starts.recv().await {
///         // An error would stop the beginning; a text becomes a remark on the run.
///         start.answer(Ok(Some("the magnet was off".to_owned())));
///     }
/// });
///
/// let (source, builder) = (SourceId::new(1), BuilderId::new(1));
/// let epoch = SupervisorConfig::fresh_epoch();
/// let plan = RunPlan::new(RunNumber::new(42), epoch, vec![source], vec![builder]);
/// let plan = RunPlan { events: Some(1), ..plan };
/// let config = SupervisorConfig::new("127.0.0.1:0", plan);
/// let supervisor =
///     Supervisor::start(SupervisorConfig { gate: Some(gate), ..config }).await?;
/// let address = supervisor.address().to_string();
/// let _builder = Builder::connect(BuilderConfig::new(builder, &address), NullSink).await?;
/// let source = Source::connect(SourceConfig::new(source, &address)).await?;
/// source.push(Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data")).await?;
/// assert!(supervisor.finished().await?.remarks.contains(&"the magnet was off".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StartGate(mpsc::Sender<RunStart>);

impl StartGate {
    /// Creates a gate, and the questions that come through it.
    pub fn new() -> (Self, mpsc::Receiver<RunStart>) {
        let (sender, questions) = mpsc::channel(QUESTIONS);
        (Self(sender), questions)
    }
}

impl PartialEq for StartGate {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

/// A run that waits for the permission to begin: see [`StartGate`].
#[derive(Debug)]
pub struct RunStart {
    /// The run's number.
    pub run: RunNumber,
    /// The run's id.
    pub id: RunId,
    /// The operator's annotation.
    pub annotation: Annotation,
    /// Time of the question, by the supervisor's wall clock; event times count from it.
    pub begin: Utc,
    answer: oneshot::Sender<Answer>,
}

/// A permission, perhaps with a remark, or the reason why the run may not begin.
type Answer = Result<Option<String>, String>;

impl RunStart {
    /// Lets the run begin, with a remark if there is one, or stops its beginning for a reason.
    pub fn answer(self, answer: Result<Option<String>, String>) {
        // An error means that this beginning was given up.
        let _ = self.answer.send(answer);
    }

    /// Waits until this beginning is given up, so that the answer changes nothing.
    pub async fn given_up(&mut self) {
        self.answer.closed().await;
    }
}

/// The gate, and the question that waits for an answer.
#[derive(Debug)]
pub(super) struct Asking {
    gate: Option<StartGate>,
    answered: Option<oneshot::Receiver<Answer>>,
}

impl Asking {
    pub(super) fn new(gate: Option<StartGate>) -> Self {
        Self { gate, answered: None }
    }

    /// Asks if the run waits for the permission, and hands over the answer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, role: &mut SupervisorRole, now: Instant) {
        if !role.asks_permission() {
            // The question is given up.
            self.answered = None;
            return;
        }
        let gate = self.gate.as_ref();
        let answered = self.answered.get_or_insert_with(|| ask(gate, &role.core().begun()));
        if let Poll::Ready(answer) = Pin::new(answered).poll(cx) {
            self.answered = None;
            role.permit(answer.unwrap_or_else(|_| Ok(Some(NO_ANSWER.to_owned()))), now);
        }
    }
}

/// Asks whether the run may begin. If nobody listens, the answer fails at once.
fn ask(gate: Option<&StartGate>, begun: &Begin) -> oneshot::Receiver<Answer> {
    let (answer, answered) = oneshot::channel();
    let start = RunStart {
        run: RunNumber::new(begun.run),
        id: begun.run_id,
        annotation: Annotation { kind: begun.kind.clone(), comment: begun.comment.clone() },
        begin: begun.began().utc,
        answer,
    };
    // An error drops the answer.
    gate.map(|gate| gate.0.try_send(start));
    answered
}
