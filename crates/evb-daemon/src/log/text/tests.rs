use evb_core::id::{Peer, SourceId};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _};

use super::Text;
use crate::log::{repeats::Repeats, role, tests::Written};

/// Returns the lines that `say` logs under a filter.
fn logged(filter: &str, say: impl FnOnce()) -> Vec<String> {
    let written = Written::default();
    let filter = EnvFilter::new(filter).add_directive("evb::who=error".parse().expect("a directive"));
    let layer = Text::new(Repeats::new(written.clone(), false));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(filter).with(layer), say);
    written.lines()
}

#[test]
fn a_line_has_the_role_and_a_sentence_but_no_fields() {
    let lines = logged("info", || {
        let named = role(Peer::Source(SourceId::new(3)), "TPC crate 1").entered();
        tracing::warn!(target: "evb_net::lane", builder = 2, unsaid = 2_u64, "the lane is down");
        drop(named);
        tracing::info!(target: "evb::supervisor", run = 7, "run 7 begins");
    });
    let first = "WARN source 3 (TPC crate 1): the lane is down; 2 more lines like this since the last one";
    assert_eq!(lines, [first, "INFO run 7 begins"]);
}

#[test]
fn details_keep_target_and_fields_and_other_libraries_keep_fields() {
    let lines = logged("evb_net=debug,hyper=warn", || {
        tracing::debug!(target: "evb_net::lane", builder = 2, "dropped");
        tracing::warn!(target: "hyper::proto", reason = "parse", "failed");
        tracing::debug!(target: "evb::source", "not selected");
    });
    assert_eq!(lines, ["DEBUG evb_net::lane: dropped builder=2", "WARN failed reason=\"parse\""]);
}
