//! [`Members`]: the trunk that each source, builder and trunk is directly behind.

use std::collections::{BTreeMap, BTreeSet};

use evb_core::id::Peer;

use crate::{
    builder::BuilderEntry,
    network::NetworkConfig,
    similar::{choice, nearest},
    source::SourceEntry,
    template::parse_ids,
    trunk::{Trunk, TrunkKind},
};

/// A mistake in the members of the trunk at this position.
pub(super) struct Mistake {
    pub(super) trunk: usize,
    pub(super) reason: String,
    pub(super) remedy: String,
}

/// The trunks that sources, builders and trunks are behind, all by their positions in the
/// configuration.
pub(super) struct Members<'c> {
    network: &'c NetworkConfig,
    sources: &'c [SourceEntry],
    builders: &'c [BuilderEntry],
    pub(super) above_trunk: Vec<Option<usize>>,
    above_source: Vec<Option<usize>>,
    above_builder: Vec<Option<usize>>,
    pub(super) mistakes: Vec<Mistake>,
}

/// Sources or builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    Source,
    Builder,
}

/// Number of names that a message lists.
const LISTED: usize = 8;

impl<'c> Members<'c> {
    /// Finds for each trunk, source and builder the trunk of which it is a member, and notes
    /// mistakes.
    pub(super) fn new(
        network: &'c NetworkConfig,
        sources: &'c [SourceEntry],
        builders: &'c [BuilderEntry],
    ) -> Self {
        let mut members = Self {
            network,
            sources,
            builders,
            above_trunk: vec![None; network.trunks.len()],
            above_source: vec![None; sources.len()],
            above_builder: vec![None; builders.len()],
            mistakes: Vec::new(),
        };
        if network.trunks.is_empty() {
            return members;
        }
        let names = Names::new(network, sources, builders);
        for (position, trunk) in network.trunks.iter().enumerate() {
            let mut listed = BTreeSet::new();
            for member in &trunk.members {
                if listed.insert(member) {
                    members.add(&names, position, member);
                } else {
                    let reason = format!("`{member}` is a member of {} twice", in_words(trunk));
                    members.note(position, reason, "list each member once");
                }
            }
        }
        members.cut_cycles();
        members
    }

    fn note(&mut self, trunk: usize, reason: String, remedy: impl Into<String>) {
        self.mistakes.push(Mistake { trunk, reason, remedy: remedy.into() });
    }

    /// Makes what a name stands for members of a trunk.
    fn add(&mut self, names: &Names<'_>, trunk: usize, member: &str) {
        let network = self.network;
        let kind = network.trunks[trunk].kind;
        let found = names.find(member, kind);
        if found.is_empty() {
            let what = match kind {
                TrunkKind::Buffer => "neither a port nor a shared buffer",
                TrunkKind::Link => "neither a host, a port, a source, a builder nor a trunk",
            };
            let reason = format!("`{member}`, a member of {}, is {what}", in_words(&network.trunks[trunk]));
            let remedy = names.suggestion(member, &network.trunks[trunk]);
            return self.note(trunk, reason, remedy);
        }
        for one in found {
            let above = match one {
                One::Trunk(other) => &mut self.above_trunk[other],
                One::Source(source) => &mut self.above_source[source],
                One::Builder(builder) => &mut self.above_builder[builder],
            };
            // What was a member before stays one of the first trunk, and the second is a mistake.
            let Some(other) = above.replace(trunk) else { continue };
            *above = Some(other);
            if other == trunk {
                let reason = format!("`{member}` is a member of {} twice", in_words(&network.trunks[trunk]));
                return self.note(trunk, reason, "remove it, because another member includes it already");
            }
            let reason = format!(
                "`{member}` is a member of {} and of {}, but it can be a direct member of only one",
                in_words(&network.trunks[other]),
                in_words(&network.trunks[trunk])
            );
            return self.note(
                trunk,
                reason,
                "keep it only in the one to which it is connected directly, and remove it from `members` of the other",
            );
        }
    }

    /// Refuses trunks that are behind themselves.
    fn cut_cycles(&mut self) {
        let mut is_done = vec![false; self.above_trunk.len()];
        for start in 0..self.above_trunk.len() {
            let (mut way, mut at) = (BTreeSet::new(), Some(start));
            while let Some(trunk) = at.filter(|trunk| !is_done[*trunk]) {
                if !way.insert(trunk) {
                    let between = core::iter::successors(self.above_trunk[trunk], |at| self.above_trunk[*at])
                        .take_while(|at| *at != trunk)
                        .map(|at| in_words(&self.network.trunks[at]))
                        .collect::<Vec<_>>();
                    let through = if between.is_empty() { "" } else { " through " };
                    let reason = format!(
                        "{} is a member of itself{through}{}",
                        in_words(&self.network.trunks[trunk]),
                        between.join(", ")
                    );
                    self.above_trunk[trunk] = None;
                    let remedy = match self.network.trunks[trunk].kind {
                        TrunkKind::Link => {
                            "list as members only what is at the trunk's far end, seen from the root switch: hosts, ports and other trunks"
                        }
                        TrunkKind::Buffer => {
                            "list as members only ports, and shared buffers that are parts of this one"
                        }
                    };
                    self.note(trunk, reason, remedy);
                    break;
                }
                at = self.above_trunk[trunk];
            }
            way.into_iter().for_each(|trunk| is_done[trunk] = true);
        }
    }

    /// Returns the trunks, each after the one that it is behind.
    pub(super) fn order(&self) -> Vec<usize> {
        let depth = |trunk: usize| {
            core::iter::successors(self.above_trunk[trunk], |above| self.above_trunk[*above]).count()
        };
        let mut order: Vec<usize> = (0..self.above_trunk.len()).collect();
        order.sort_by_cached_key(|trunk| (depth(*trunk), *trunk));
        order
    }

    /// Returns the trunk that all sources or builders of a link are behind. Refuses a trunk that
    /// only some of them are behind.
    pub(super) fn common(&mut self, of: Behind, link: &str, positions: &[usize]) -> Option<usize> {
        let above = if of == Behind::Source { &self.above_source } else { &self.above_builder };
        let first = positions.first().and_then(|position| above[*position]);
        let other = positions.iter().map(|position| above[*position]).find(|other| *other != first);
        if let Some(trunk) = other.and_then(|other| other.or(first)) {
            let outside = positions.iter().copied().find(|position| above[*position] != Some(trunk));
            let (kind, outside) = match of {
                Behind::Source => {
                    ("sources", outside.map(|position| Peer::Source(self.sources[position].id)))
                }
                Behind::Builder => {
                    ("builders", outside.map(|position| Peer::Builder(self.builders[position].id)))
                }
            };
            let outside = outside.map_or_else(String::new, |peer| format!(", and {peer} is not"));
            let reason = format!(
                "only some of the {kind} that share the link of `{link}` are members of {}{outside}",
                in_words(&self.network.trunks[trunk])
            );
            self.note(
                trunk,
                reason,
                format!("list in `members` all of these {kind}, or `{link}` in place of them"),
            );
        }
        first
    }
}

fn in_words(trunk: &Trunk) -> String {
    format!("{} `{}`", trunk.kind.word(), trunk.name)
}

/// A member of a trunk, by its position in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum One {
    Trunk(usize),
    Source(usize),
    Builder(usize),
}

/// The names by which members can be listed.
struct Names<'c> {
    places: BTreeMap<&'c str, Vec<One>>,
    sources: BTreeMap<u16, usize>,
    builders: BTreeMap<u16, usize>,
}

impl<'c> Names<'c> {
    /// Collects the names under which members can be listed.
    fn new(network: &'c NetworkConfig, sources: &'c [SourceEntry], builders: &'c [BuilderEntry]) -> Self {
        let mut places: BTreeMap<&str, Vec<One>> = BTreeMap::new();
        for (position, source) in sources.iter().enumerate() {
            for name in source.bind.iter().chain(&source.host) {
                places.entry(name).or_default().push(One::Source(position));
            }
        }
        for (position, builder) in builders.iter().enumerate() {
            let (port, host) = (builder.port_name(), builder.listen.host.as_str());
            for name in [Some(port), Some(host).filter(|host| *host != port)].into_iter().flatten() {
                places.entry(name).or_default().push(One::Builder(position));
            }
        }
        for (position, trunk) in network.trunks.iter().enumerate() {
            places.insert(&trunk.name, vec![One::Trunk(position)]);
        }
        Self {
            places,
            sources: sources.iter().enumerate().map(|(at, source)| (source.id.number(), at)).collect(),
            builders: builders.iter().enumerate().map(|(at, builder)| (builder.id.number(), at)).collect(),
        }
    }

    /// Returns everything that a name means; nothing if a part of it is unknown.
    fn find(&self, name: &str, kind: TrunkKind) -> Vec<One> {
        let mut found = self.places.get(name).cloned().unwrap_or_else(|| self.by_ids(name));
        if kind == TrunkKind::Buffer {
            found.retain(|one| !matches!(one, One::Source(_)));
        }
        found
    }

    /// Returns the members that a list of ids means, such as `source 3` or `builders 1-4, 7`.
    fn by_ids(&self, name: &str) -> Vec<One> {
        let Some((word, ids)) = name.split_once(' ') else { return Vec::new() };
        let Ok(ids) = parse_ids(ids) else { return Vec::new() };
        let one = |id: &u16| match word {
            "source" | "sources" => self.sources.get(id).copied().map(One::Source),
            "builder" | "builders" => self.builders.get(id).copied().map(One::Builder),
            _ => None,
        };
        ids.iter().map(one).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns what to write in place of an unknown member: a name that is neither that of the
    /// trunk nor one of its other members.
    fn suggestion(&self, member: &str, of: &Trunk) -> String {
        let is_fit = |name: &str, ones: &[One]| {
            let has_builder = ones.iter().any(|one| !matches!(one, One::Source(_)));
            let is_new = name != of.name && of.members.iter().all(|other| other != name);
            is_new && (of.kind == TrunkKind::Link || has_builder)
        };
        let fit = self.places.iter().filter(|(name, ones)| is_fit(name, ones));
        let names: Vec<&str> = fit.map(|(name, _)| *name).collect();
        let mut all = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        if names.len() > LISTED {
            all += ", …";
        }
        let all = match of.kind {
            _ if names.is_empty() => return "remove it: all that are here are members already".to_owned(),
            TrunkKind::Buffer => format!("one of the ports or shared buffers here: {all}"),
            TrunkKind::Link => {
                format!("one of the names here: {all}; or ids such as \"sources 1-4\" or \"builder 2\"")
            }
        };
        choice(nearest(member, names), &all)
    }
}
