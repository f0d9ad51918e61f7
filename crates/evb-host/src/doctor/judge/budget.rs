//! R·C/L: tests whether the bytes under way (L) keep a link of rate C busy during the round trip R
//! of a grant.

use std::time::Duration;

use evb_net::host::Unavailable;
use serde_json::json;

use super::{
    super::{
        facts::Facts,
        finding::{Finding, Subject},
    },
    brief, paths,
};

/// The round trip of a grant, and the origin of its time.
struct RoundTrip {
    time: Duration,
    /// Description of the measurement for the output.
    how: String,
    /// True if the time lacks the delay of the network.
    is_partial: bool,
}

/// Largest ratio R·C/L that is good. The other half of L allows for the processing time of lanes,
/// which ping does not measure.
const COMFORTABLE: f64 = 0.5;

pub(super) fn finding(facts: &Facts) -> Finding {
    let name = "R·C/L";
    let why = "utilisation is at most L/(R·C): R is the time from a grant to its data, C the link's rate, L the budget";
    let missing =
        |reason: &str| Finding::missing(Subject::Configuration, name, &Unavailable::new(reason), why);
    let Some(demand) = &facts.demand else { return missing("no configuration was given") };
    let Some(link_rate) = demand.link_rate else {
        return missing("the configuration states no link_rate; add it to [network]");
    };
    let Some(under_way) = demand.under_way else {
        return missing(&format!(
            "of no concern, because with mode = \"{}\" no lane waits for a round trip",
            demand.mode.word()
        ));
    };
    let Some(round_trip) = round_trip(facts) else {
        return missing("no peer answers ping, and the loopback cannot be measured");
    };
    let in_round_trip = link_rate * round_trip.time;
    let ratio = in_round_trip.count() as f64 / under_way.count().max(1) as f64;
    let value = format!(
        "{ratio:.3}: R {} ({}), C {link_rate}, L {under_way}",
        brief(round_trip.time),
        round_trip.how
    );
    let finding = Finding::new(Subject::Configuration, name, value, why).data(json!({
        "ratio": ratio, "round_trip_us": round_trip.time.as_nanos() as f64 / 1e3, "measured": round_trip.how,
        "with_network": !round_trip.is_partial, "bits_per_second": link_rate.bits_per_second(), "bytes": under_way.count(),
    }));
    if ratio >= 1.0 {
        let why = format!(
            "at most {:.0} % of the link can be used: a larger budget or faster hosts would help",
            100.0 / ratio
        );
        return Finding { why, ..finding.bad(None) };
    }
    if round_trip.is_partial {
        let why =
            "the network is not included, because no peer answers ping: allow it, or name a host with --peer"
                .to_owned();
        return Finding { why, ..finding };
    }
    if ratio <= COMFORTABLE {
        return finding.good();
    }
    let why = "the budget only just fills the link: a larger budget or faster hosts would help".to_owned();
    Finding { why, ..finding.better(None) }
}

/// Returns the round trip to the farthest peer that answers ping, plus one exchange between threads
/// of this host, because a program must wake up at both ends.
fn round_trip(facts: &Facts) -> Option<RoundTrip> {
    let turn = facts.turn.as_ref().ok().map(|turn| turn.whole.p50);
    let is_remote = facts.paths.iter().any(|path| !path.is_here);
    match paths::farthest(&facts.paths) {
        Some((path, time)) if !path.is_here => {
            let how = format!("ping to {} and a turn of two threads", path.address);
            Some(RoundTrip { time: time + turn.unwrap_or_default(), how, is_partial: false })
        }
        _ => {
            let how = "a turn of two threads over the loopback".to_owned();
            Some(RoundTrip { time: turn?, how, is_partial: is_remote || !facts.unresolved.is_empty() })
        }
    }
}
