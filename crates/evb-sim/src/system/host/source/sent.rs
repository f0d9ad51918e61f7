//! [`Sent`]: the check that a source does not repeat bytes whose loss the builder cannot have
//! noticed.

use core::ops::Range;
use std::collections::VecDeque;

use evb_core::{time::Instant, wire::datagram::Request};

use crate::system::{
    failure::{Check, Failure},
    host::Surroundings,
};

/// The bytes of a lane that left for the first time less than three quarters of a round trip ago.
#[derive(Debug, Default)]
pub(super) struct Sent(VecDeque<(Range<u64>, Instant)>);

impl Sent {
    /// Notes bytes that leave. Bytes that leave again must not have left for the first time less
    /// than three quarters of a round trip ago, because the builder that asked for them cannot have
    /// missed them (docs/reference/protocol.md UDP-12).
    pub(super) fn note(
        &mut self,
        range: &Range<u64>,
        request: Request,
        around: &Surroundings<'_>,
    ) -> Result<(), Failure> {
        let (now, recent) = (around.now(), around.scenario.weather.latency * 2 * 3 / 4);
        while self.0.pop_front_if(|(_, at)| now.since(*at) >= recent).is_some() {}
        if request == 0 {
            self.0.push_back((range.clone(), now));
            return Ok(());
        }
        let Some((sent, at)) =
            self.0.iter().find(|(sent, _)| sent.start < range.end && range.start < sent.end)
        else {
            return Ok(());
        };
        let before = now.since(*at);
        let what = format!("bytes {range:?} leave again, {before:?} after the source first sent {sent:?}");
        Err(Failure::new(Check::Spurious, what))
    }
}
