//! The findings about the sources of a run.

#[cfg(test)]
mod tests;

use core::cmp::Reverse;
use std::collections::BTreeSet;

use super::peer_names::ranges;
use crate::{event::Cause, ledger::SourceSummary, quantities::counted};

/// Most sources that are named for the same kind of finding. The worst are named, and the others
/// are counted.
const NAMED: usize = 10;

/// Most triggers that a board is thought to have missed. A board that misses more was switched off.
const FEW: u64 = 16;

/// Finding about a source or builder that ended without its final report.
pub(super) const NO_FINAL_REPORT: &str = "gave no final report, so its own counts may be incomplete, but those of events are right: see in its log whether it crashed";

/// A kind of finding about a source.
struct FindingKind {
    /// The amount by which sources are compared. A source with 0 has no such finding.
    amount: fn(&SourceSummary) -> u64,
    /// The sentence about one source, with `{source}`, `{amount}` and `{detail}`.
    one: &'static str,
    /// The sentence about a number of others, with `{sources}` and their largest amount, `{most}`.
    others: &'static str,
    /// The text in place of `{detail}`.
    detail: fn(&SourceSummary) -> String,
}

fn nothing(_: &SourceSummary) -> String {
    String::new()
}

const PROBLEMS: [FindingKind; 10] = [
    FindingKind {
        amount: lost_count,
        one: "{source} delivered {detail} fragments, none for the last {amount} events: its board may have missed as many triggers before, so that later fragments are in wrong events; look at its trigger input, and set `clock` in its `[[source]]`, so that evb can tell in later runs",
        others: "{sources} more sources delivered no fragments for up to {most} events at the end: their boards may have missed triggers, so that later fragments are in wrong events; look at their trigger inputs, and set `clock` in the `[[source]]` of each, so that evb can tell in later runs",
        detail: |source| {
            format!("{} of {}", source.fragments, source.fragments.saturating_add(source.missing))
        },
    },
    FindingKind {
        amount: |source| if lost_count(source) > 0 { 0 } else { source.missing },
        one: "{source} is missing in {amount} events {detail}; look at its readout, its host and its network, then at its log",
        others: "{sources} more sources are missing in up to {most} events each; look at their readouts, their hosts and the network, then at their logs",
        detail: causes,
    },
    FindingKind {
        amount: |source| source.crc_errors,
        one: "{amount} fragments of {source} were damaged on the way (wrong checksum), now lost: check the network and the memory of its host",
        others: "up to {most} fragments of each of {sources} more sources were damaged on the way, and are lost: check the network and the memory of their hosts",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.lossy,
        one: "{amount} fragments of {source} in complete events lack packets{detail}: look for losses at its board and in the network, and raise `receive_buffer` of its input if the kernel dropped any",
        others: "{sources} more sources have lost packets in up to {most} fragments each, of complete events: look for losses at their boards and in the network, and raise `receive_buffer` of their inputs if the kernel dropped any",
        detail: |source| {
            let (lost, drops) = (counted(source.lost_packets, "packet"), source.socket_drops);
            format!(" ({lost} lost in all, of which the kernel dropped {drops})")
        },
    },
    FindingKind {
        amount: |source| source.refused,
        one: "{source} refused {amount} fragments of its readout (too large, or a wrong event id), now lost: correct the readout, or raise `max_fragment` if larger ones are right; its log names the events",
        others: "{sources} more sources refused up to {most} fragments of their readout each (too large, or a wrong event id), now lost: correct the readouts, or raise `max_fragment` if larger ones are right; their logs name the cause",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.contradictions,
        one: "the readout of {source} sent {amount} fragments with an event id that it had given to other data before, and evb kept the first and discarded what came later: find out why the readout gives an event id twice{detail}",
        others: "the readouts of {sources} more sources gave up to {most} event ids each to different data a second time, and evb kept the first and discarded what came later: find out why the readouts give event ids twice",
        detail: |source| source.contradiction.map_or_else(String::new, |first| format!(" ({first})")),
    },
    FindingKind {
        amount: |source| source.unplaced,
        one: "{amount} fragments of {source} were lost{detail}: reset the boards before each run and never in a run, or correct `counter` in its `[[source]]`",
        others: "up to {most} fragments of each of {sources} more sources were lost, because trigger counters fell or leapt: reset the boards before each run and never in a run, or correct `counter` in each `[[source]]`",
        detail: |source| match source.counter_resets {
            0 => ", because the trigger counter of its boards did not begin as configured".to_owned(),
            resets => {
                let resets = counted(resets, "reset");
                format!(", because the trigger counter of its boards fell or leapt ({resets})")
            }
        },
    },
    FindingKind {
        amount: |source| source.lost_wraps,
        one: "{amount} fragments of {source} were lost, because the trigger counter of its boards may have wrapped unseen during a silence: find out why the boards sent nothing for so long, or let them send a counter of more bits",
        others: "up to {most} fragments of each of {sources} more sources were lost, because trigger counters may have wrapped unseen: find out why the boards sent nothing for so long, or let them send counters of more bits",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.counter_invalid,
        one: "{amount} fragments of {source} were lost, because their trigger counter has more bits than configured, or does not grow by the configured `step`: correct `counter`, or what the boards send",
        others: "up to {most} fragments of each of {sources} more sources were lost, because their trigger counter does not fit the configuration: correct `counter` of the sources, or what the boards send",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.counter_zero_skips,
        one: "the trigger counter of {source} left out 0 as it wrapped ({detail}): its boards missed that trigger, or they never send 0, and then all later fragments are in wrong events; compare the timestamps (`evbd verify --align CONFIG`), and let the boards send 0 too",
        others: "the trigger counters of {sources} more sources left out 0 at up to {most} wraps each: boards that never send 0 have all later fragments in wrong events; compare the timestamps (`evbd verify --align CONFIG`), and let the boards send 0 too",
        detail: |source| counted(source.counter_zero_skips, "time"),
    },
];

const REMARKS: [FindingKind; 14] = [
    FindingKind {
        amount: harmless_absence,
        one: "{source} was down for {detail} s; no event lacks its fragment for that reason, so nothing needs to be done",
        others: "{sources} more sources were down for a shorter time; no event lacks their fragments for that reason, so nothing needs to be done",
        detail: |source| format!("{:.3}", source.down_s),
    },
    FindingKind {
        amount: |source| if source.sporadic { source.closed.saturating_add(source.late) } else { 0 },
        one: "{amount} fragments of {source}, which is sporadic, came too late for their events, and were not used; nothing needs to be done, but a longer `wait` in `[[source]]` would keep more of them",
        others: "up to {most} fragments of each of {sources} more sources, which are sporadic, came too late for their events, and were not used; nothing needs to be done, but a longer `wait` in `[[source]]` would keep more of them",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.kept_before_start,
        one: "{source} kept {amount} fragments that arrived before the start, as its `before_start` says; nothing needs to be done",
        others: "{sources} more sources kept up to {most} fragments each that arrived before the start, as their `before_start` says; nothing needs to be done",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.discarded_before_start,
        one: "{source} discarded {amount} fragments that arrived before the start, as its `before_start` says; nothing needs to be done",
        others: "{sources} more sources discarded up to {most} fragments each that arrived before the start, as their `before_start` says; nothing needs to be done",
        detail: nothing,
    },
    FindingKind {
        amount: |source| if source.front_end_protocol == 1 { source.run_not_stated } else { 0 },
        one: "{source}: its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does: update the front end, else fragments of an earlier run may get into events",
        others: "{sources} more sources: their front ends speak protocol 1, which does not state the run of fragments; protocol 2 does: update the front ends, else fragments of an earlier run may get into events",
        detail: nothing,
    },
    FindingKind {
        amount: |source| if source.front_end_protocol > 1 { source.run_not_stated } else { 0 },
        one: "{source}: its front end did not state the run of {amount} fragments, which may be of another run: let the front end state it, as protocol 2 can",
        others: "{sources} more sources: their front ends did not state the run of up to {most} fragments each, which may be of another run: let the front ends state it, as protocol 2 can",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.of_other_runs,
        one: "{source} discarded {amount} fragments that its front end read out in another run, as it should; nothing needs to be done",
        others: "{sources} more sources discarded up to {most} fragments each of other runs, as they should; nothing needs to be done",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.malformed,
        one: "front ends of {source} sent {amount} fragments that were cut off, malformed, or with an event id that cannot be (ids start at 1), now lost: correct what the front ends send",
        others: "front ends of {sources} more sources sent up to {most} malformed fragments each, now lost: correct what the front ends send",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.garbage_bytes,
        one: "the boards of {source} sent {amount} B that belong to no frame and are lost, and {detail} for the next frame: compare what they send with `frame` of its input (`evbd frames` helps)",
        others: "the boards of {sources} more sources sent up to {most} B each that belong to no frame and are lost: compare what they send with `frame` of their inputs (`evbd frames` helps)",
        detail: |source| format!("evb searched {}", counted(source.resyncs, "time")),
    },
    FindingKind {
        amount: |source| source.unused_packets,
        one: "{source} did not use {amount} packets that came twice, too late, or from another sender: if fragments of it are missing, look at the network and at `from` of its input, else nothing needs to be done",
        others: "{sources} more sources did not use up to {most} packets each that came twice, too late, or from another sender: if fragments of them are missing, look at the network and at `from` of their inputs, else nothing needs to be done",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.repeats.saturating_add(source.repeats_not_compared),
        one: "the readout of {source} repeated {amount} fragments{detail}, and evb kept the first ones, so no event is affected, and nothing needs to be done",
        others: "the readouts of {sources} more sources repeated up to {most} fragments each, and evb kept the first ones, so no event is affected, and nothing needs to be done",
        detail: |source| match source.repeats_not_compared {
            0 => String::new(),
            old => format!(" ({old} came too late to be compared with the first ones)"),
        },
    },
    FindingKind {
        amount: |source| source.counter_skipped.saturating_sub(source.counter_late),
        one: "the trigger counter of {source} left out {amount} numbers in {detail}: its boards missed triggers, or fragments got lost; look at the boards and their links",
        others: "the trigger counters of {sources} more sources left out up to {most} numbers each: their boards missed triggers, or fragments got lost; look at the boards and their links",
        detail: |source| counted(source.counter_gaps, "gap"),
    },
    FindingKind {
        amount: |source| source.counter_late,
        one: "{amount} fragments of {source} came after one with a later trigger counter, and were placed in the right events all the same; nothing needs to be done",
        others: "up to {most} fragments of each of {sources} more sources came after one with a later trigger counter, and were placed in the right events all the same; nothing needs to be done",
        detail: nothing,
    },
    FindingKind {
        amount: |source| source.unexpected,
        one: "{amount} fragments of {source} belonged to no event of the run, and were not used: compare the event ids of its readout with the numbers of the triggers",
        others: "up to {most} fragments of each of {sources} more sources belonged to no event of the run, and were not used: compare the event ids of their readouts with the numbers of the triggers",
        detail: nothing,
    },
];

/// Words of a sentence about several things, and those about one.
const OF_ONE: [(&str, &str); 9] = [
    ("last {amount} events", "last event"),
    ("as many triggers", "one"),
    ("{amount} fragments", "1 fragment"),
    ("{amount} events", "1 event"),
    ("{amount} numbers", "1 number"),
    ("{amount} packets", "1 packet"),
    (" were ", " was "),
    (" lack packets", " lacks packets"),
    ("because their trigger counter", "because its trigger counter"),
];

impl FindingKind {
    /// Returns the sentence about a source, in the singular if the amount is one.
    fn about(&self, source: &SourceSummary) -> String {
        let amount = (self.amount)(source);
        let of_one = OF_ONE.iter().fold(self.one.to_owned(), |text, (many, one)| text.replace(many, one));
        let sentence = if amount == 1 { &of_one } else { self.one };
        let sentence = sentence.replace("{source}", &source.named()).replace("{amount}", &amount.to_string());
        sentence.replace("{detail}", &(self.detail)(source))
    }

    /// Returns the sentence about the other sources, with these ids.
    fn about_others(&self, (ids, most): &(Vec<u16>, u64)) -> String {
        let sources = format!("{} more sources (ids {})", ids.len(), ranges(ids.iter().copied()));
        self.others.replace("{sources} more sources", &sources).replace("{most}", &most.to_string())
    }

    /// Returns the ids of the sources with the largest amounts above zero; and the ascending ids of
    /// the other sources with such an amount, and their largest amount.
    fn worst(&self, sources: &[SourceSummary]) -> (BTreeSet<u16>, Option<(Vec<u16>, u64)>) {
        let amounts = sources.iter().map(|source| (Reverse((self.amount)(source)), source.id));
        let mut found: Vec<_> = amounts.filter(|(Reverse(amount), _)| *amount > 0).collect();
        found.sort_unstable();
        let named = found.iter().take(NAMED).map(|(_, id)| *id).collect();
        let rest = found.get(NAMED).map(|(Reverse(most), _)| {
            let others: BTreeSet<u16> = found.iter().skip(NAMED).map(|(_, id)| *id).collect();
            (others.into_iter().collect(), *most)
        });
        (named, rest)
    }
}

/// Returns the problems of the sources: for each kind, those of the worst sources, and the number
/// of the others. A run that has not started expects no reports.
pub(super) fn problems(sources: &[SourceSummary], is_started: bool) -> Vec<String> {
    let worst = PROBLEMS.each_ref().map(|kind| kind.worst(sources));
    let silent: Vec<u16> = sources
        .iter()
        .filter(|source| is_started && !source.reported && source.owes())
        .map(|source| source.id)
        .collect();
    let mut problems = Vec::new();
    for source in sources {
        for (kind, (named, _)) in PROBLEMS.iter().zip(&worst) {
            problems.extend(named.contains(&source.id).then(|| kind.about(source)));
        }
        if silent.len() <= NAMED && silent.contains(&source.id) {
            problems.push(format!("{} {NO_FINAL_REPORT}", source.named()));
        }
    }
    // One sentence for all other sources of a kind.
    for (kind, (_, rest)) in PROBLEMS.iter().zip(&worst) {
        problems.extend(rest.as_ref().map(|rest| kind.about_others(rest)));
    }
    if silent.len() > NAMED {
        problems.push(format!(
            "{} sources gave no final report, so their own counts may be incomplete, but those of events are right: see whether they crashed, in the logs of sources {}",
            silent.len(),
            ranges(silent)
        ));
    }
    problems
}

/// Returns the remarks on the sources, in the order of their kinds.
pub(super) fn remarks(sources: &[SourceSummary]) -> Vec<String> {
    let of_kind = |kind: &FindingKind| {
        let (named, rest) = kind.worst(sources);
        let each = sources.iter().filter(|source| named.contains(&source.id));
        let each: Vec<String> = each.map(|source| kind.about(source)).collect();
        each.into_iter().chain(rest.map(|rest| kind.about_others(&rest)))
    };
    REMARKS.iter().flat_map(of_kind).collect()
}

/// Returns the number of events at the end for which a source has no fragment, if they are few and
/// each event before has one: the source of a board that counts triggers itself ends so when the
/// board has missed that many.
fn lost_count(source: &SourceSummary) -> u64 {
    let was_silent = source.missing_by_cause.keys().all(|cause| *cause == Cause::Silent);
    let is_count = source.missing == source.missing_at_end && source.missing <= FEW && was_silent;
    if is_count { source.missing } else { 0 }
}

/// Returns the causes for which events lack fragments of a source, and for how long it was down.
fn causes(source: &SourceSummary) -> String {
    let SourceSummary { missing_by_cause, down_s, .. } = source;
    let causes: Vec<String> =
        missing_by_cause.iter().map(|(cause, events)| format!("{events} {cause}")).collect();
    let down = match *down_s > 0.0 {
        true => format!(", and was down for {down_s:.3} s"),
        false => String::new(),
    };
    format!("({}){down}", causes.join(", "))
}

/// Returns for how long the source was down, in microseconds and at least 1, if no event lacks its
/// fragment for that reason; else 0.
fn harmless_absence(source: &SourceSummary) -> u64 {
    if source.down_s > 0.0 && !source.missing_by_cause.contains_key(&Cause::Down) {
        ((source.down_s * 1e6) as u64).max(1)
    } else {
        0
    }
}
