//! The programs and bytes of `on_start`, `on_stop` and `[hooks]`, as `evbd check` lists them.

use std::fmt::Write as _;

use evb_core::quantities::time;

use crate::{Config, Hook, ranges};

/// Lists what is done, with its sources; equal entries of several sources are one. Empty if there
/// are none.
pub(crate) fn hooks(config: &Config) -> String {
    let mut listed: Vec<(&str, &Hook, Vec<u16>)> = Vec::new();
    for source in &config.sources {
        let id = source.id.number();
        for (key, hook) in [("on_start", &source.hooks.on_start), ("on_stop", &source.hooks.on_stop)] {
            let Some(hook) = hook else { continue };
            match listed.iter_mut().find(|(known, same, _)| *known == key && *same == hook) {
                Some((.., ids)) => ids.push(id),
                None => listed.push((key, hook, vec![id])),
            }
        }
    }
    let mut page = if listed.is_empty() { String::new() } else { "\nStart and end of a run\n".to_owned() };
    let programs: Vec<_> = config.hooks.programs().collect();
    if page.is_empty() && !programs.is_empty() {
        page.push_str("\nStart and end of a run\n");
    }
    for (hook, words) in programs {
        let (words, limit) = (words.join(" "), time(config.hooks.timeout));
        let _ = writeln!(page, "  {hook}: run {}, within {limit}", words.escape_debug());
    }
    for (key, Hook { action, timeout }, ids) in listed {
        let of = if ids.len() == 1 { "source" } else { "sources" };
        let (ids, limit) = (ranges(ids.into_iter()), time(*timeout));
        let _ = writeln!(page, "  {key:<8} of {of} {ids}: {action}, within {limit}");
    }
    page
}
