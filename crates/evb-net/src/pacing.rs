//! Executors: they realize the departure times that the shaper has decided, in software by a timer
//! or by spinning, or in the kernel by `SO_TXTIME`, `SO_MAX_PACING_RATE` or a provisioned token
//! bucket.
//!
//! An option that the system accepts proves nothing: without the `fq` queueing discipline
//! `SO_TXTIME` succeeds, and the datagram leaves at once. So [`choose()`] takes only an offload
//! that [`prove`] has seen to work, by sending and timing.

mod spin;
mod polling;
mod executor;
mod gaps;
mod sender;
mod receiver;
mod tso;
mod proof;
mod choose;

pub use crate::sys_txtime::DepartureClock;
pub use choose::{Choice, NotProved, choose};
pub use evb_core::{
    offload::Offload,
    source::{MAX_DATAGRAMS, MAX_TRAIN},
    transport::Transport,
};
pub use executor::{Etf, Executor, SocketRate, Software, TokenBucketFilter, Txtime};
pub use gaps::Gaps;
pub use polling::{POLL_TIME, PollingRefused, prove_polling};
pub use proof::{Proof, Trial, prove};
pub use receiver::{GapReceiver, Receipt};
pub(crate) use sender::is_icmp;
pub use sender::{DatagramSender, Departed, GsoState, MAX_AHEAD, MAX_SLICES, SendError, SenderCounts};
pub use spin::{SPIN_CORES, SPIN_MARGIN, TooFewCores, cores, spin_allowed};
pub use tso::TsoTrain;
