//! Tests whether the host copies memory as fast as its roles need.

use serde_json::json;

use super::super::{
    facts::Facts,
    finding::{Finding, Subject},
};

/// Least ratio of the measured rate to the needed one that is good: the same cores also run the
/// network stack, and other programs use the same memory.
const COMFORTABLE: f64 = 2.0;

pub(super) fn finding(facts: &Facts) -> Finding {
    let (name, why) = ("memory copies", "an event builder copies every byte several times");
    let found = match &facts.memory {
        Ok(found) => found,
        Err(reason) => return Finding::missing(Subject::Host, name, reason, why),
    };
    let threads =
        if found.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", found.threads) };
    let value = format!("{} by {threads}", found.rate);
    let needed = facts.demand.as_ref().and_then(|demand| demand.copies);
    let finding = Finding::new(Subject::Host, name, value, why).data(json!({
        "bits_per_second": found.rate.bits_per_second(),
        "threads": found.threads,
        "needed_bits_per_second": needed.map(|needed| needed.bits_per_second()),
    }));
    let Some(needed) = needed else {
        return if facts.demand.is_some() { finding } else { finding.good() };
    };
    let ratio = found.rate.bytes_per_second() / needed.bytes_per_second().max(1.0);
    let remedy = if ratio < COMFORTABLE { ": host fewer of them here, or use a faster host" } else { "" };
    let why = format!("the roles of this host copy {needed} while their links are full{remedy}");
    let finding = Finding { why, ..finding };
    if ratio >= COMFORTABLE {
        finding.good()
    } else if ratio >= 1.0 {
        finding.better(None)
    } else {
        finding.bad(None)
    }
}
