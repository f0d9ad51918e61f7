//! The moment at which an input makes a fragment.

use std::net::SocketAddr;

use super::{MadeOn, Moment};
use crate::{section::Section, trigger::MulticastGroup};

/// Returns the moment that the keys of an input give, after checks.
pub(super) fn made_on(
    source: &Section<'_>,
    on: Moment,
    (group, interface): (Option<SocketAddr>, Option<String>),
    shared: Option<&MulticastGroup>,
) -> Option<MadeOn> {
    if on == Moment::Decision {
        // If `on` could not be read, it may have been "multicast", which uses these keys.
        let unused_keys =
            if source.is_wrong("input.on") { &[][..] } else { &["input.trigger_group", "input.interface"] };
        for key in unused_keys.iter().filter(|key| source.has(key)) {
            let name = key.trim_start_matches("input.");
            let reason = format!("`{name}` is used only with on = \"multicast\"");
            source.refuse(key, reason, format!("remove `{name}`, or write on = \"multicast\""));
        }
        return Some(MadeOn::Decision);
    }
    if let Some(group) = group {
        let group = MulticastGroup { group, interface };
        group.check(source, "input.trigger_group", "input.interface");
        return Some(MadeOn::Multicast(group));
    }
    if let Some(host) = &interface {
        source.allow_host("input.interface", host);
    }
    if source.has("input.trigger_group") {
        return None; // Noted before.
    }
    if shared.is_none() {
        source.refuse_lack("input.trigger_group");
    }
    shared.cloned().map(MadeOn::Multicast)
}
