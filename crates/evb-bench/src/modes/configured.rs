//! The simulation of the network that a configuration describes.

use std::path::Path;

use evb_config::{Config, Input, Layout, Link, TrunkKind};
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    trigger::TriggerKind,
    units::{Bytes, Rate},
};
use evb_sim::{FragmentSize, NetworkModel, Readout, Scenario, Trunk};

use crate::output::BenchError;

/// The buffer of a queue without a limit: the memory of a host, or a trunk whose buffer is not
/// stated.
const UNLIMITED: Bytes = Bytes::mib(1 << 20);

/// A configuration that is simulated.
#[derive(Debug)]
pub(super) struct Configured {
    text: String,
    file: String,
    config: Config,
}

/// Keys of `[shaping]` that belong to one mode, or that have defaults which depend on the mode.
const OF_MODE: [&str; 6] = ["budget", "chunk", "sources_at_once", "window", "rate", "burst"];

impl Configured {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// Returns the problems of the file, or the missing properties of its network.
    pub(super) fn read(path: &Path) -> Result<Self, BenchError> {
        // The texts of a configuration's problems begin as those of a benchmark do.
        let text = |error: &str| error.strip_prefix("error: ").unwrap_or(error).to_owned();
        let loaded =
            evb_config::load(path).map_err(|error| BenchError::Operator(text(&error.to_string())))?;
        let (config, file) = (loaded.config, path.display().to_string());
        // The text was readable a moment ago.
        let text = std::fs::read_to_string(path).map_err(|error| {
            BenchError::Operator(format!(
                "cannot read `{file}` again: {error}; keep the file where it is, and measure again"
            ))
        })?;
        let configured = Self { text, file, config };
        configured.check()?;
        Ok(configured)
    }

    /// Returns the shaping mode of the configuration.
    pub(super) fn mode(&self) -> &'static str {
        self.config.shaping.mode.word()
    }

    /// Describes the network in a few words.
    pub(super) fn describe(&self) -> String {
        let trunks = self.config.network.trunks.iter().filter(|trunk| trunk.kind == TrunkKind::Link).count();
        let shared = self.config.network.trunks.len() - trunks;
        let mut text = format!(
            "the network of {}: {} sources, {} builders, {trunks} trunk(s)",
            self.file,
            self.config.sources.len(),
            self.config.builders.len(),
        );
        if shared > 0 {
            text += &format!(" ({shared} shared buffer(s) limit budgets, and are not simulated)");
        }
        text
    }

    fn check(&self) -> Result<(), BenchError> {
        let missing = |what: &str| {
            let text = format!(
                "{}: {what} is not stated, and the simulated switch needs it; add it to [network]",
                self.file
            );
            Err(BenchError::Operator(text))
        };
        let Config { network, sources, builders, .. } = &self.config;
        let has_rates = sources.iter().all(|source| source.link_rate.is_some())
            && builders.iter().all(|builder| builder.link_rate.is_some());
        match (network.link_rate, network.port_buffer) {
            (None, _) if !has_rates => missing("link_rate"),
            (_, None) => missing("port_buffer"),
            _ => Ok(()),
        }
    }

    /// Returns the configuration with another shaping mode, and the defaults of this mode.
    fn in_mode(&self, mode: &str) -> Result<Config, BenchError> {
        if mode == self.config.shaping.mode.word() {
            return Ok(self.config.clone());
        }
        let operator = |error: &dyn std::fmt::Display| BenchError::Operator(error.to_string());
        let mut table: toml::Table = self.text.parse().map_err(|error: toml::de::Error| operator(&error))?;
        let shaping = table.entry("shaping").or_insert_with(|| toml::Table::new().into());
        if let Some(shaping) = shaping.as_table_mut() {
            OF_MODE.iter().for_each(|key| drop(shaping.remove(*key)));
            shaping.insert("mode".to_owned(), mode.into());
        }
        let text = toml::to_string(&table).map_err(|error| operator(&error))?;
        let file = format!("{} in mode {mode}", self.file);
        Ok(evb_config::read(&text, &file).map_err(|problems| operator(&problems))?.config)
    }

    /// Returns the scenario of the configuration in the given shaping mode.
    ///
    /// # Errors
    /// Returns the reason why the configuration cannot have this mode.
    pub(super) fn scenario(&self, mode: &str, events: u64, seed: u64) -> Result<Scenario, BenchError> {
        let config = self.in_mode(mode)?;
        let layout = config.layout();
        let mut sources: Vec<_> = config.sources.iter().collect();
        sources.sort_by_key(|source| source.id);
        let sizes: Vec<FragmentSize> =
            sources.iter().map(|source| size(&source.input, source.max_fragment)).collect();
        let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let usual = Scenario::default();
        Ok(Scenario {
            sources: count(config.sources.len()),
            builders: count(config.builders.len()),
            transport: config.network.transport,
            network: network(&config, &layout),
            readout: Readout { size: sizes.first().copied().unwrap_or(usual.readout.size), ..usual.readout },
            sizes,
            shaping: config.shaping(config.shaping.budget),
            shapings: config.builders.iter().map(|builder| config.builder_shaping(builder)).collect(),
            trigger: TriggerKind::AsFastAsPossible,
            slots: config.slots(),
            events,
            seed,
            ..usual
        })
    }

    /// Returns the id of the builder at a position.
    pub(super) fn builder(&self, position: usize) -> Option<BuilderId> {
        self.config.builders.get(position).map(|builder| builder.id)
    }
}

/// Returns the sizes of a source's fragments. Fragments that do not come from the generator count
/// with their largest size.
fn size(input: &Input, largest: Bytes) -> FragmentSize {
    use evb_config::FragmentSize as Configured;
    match *input {
        Input::Generator { size: Configured::Fixed(size), .. } => FragmentSize::Fixed(size),
        Input::Generator {
            size: Configured::Gaussian { mean, sigma } | Configured::LogNormal { mean, sigma },
            ..
        } => FragmentSize::Gaussian { mean, sigma },
        _ => FragmentSize::Fixed(largest),
    }
}

/// Returns the network of a configuration. Sources that share an uplink, and builders that share a
/// port, are behind a trunk of this rate.
fn network(config: &Config, layout: &Layout) -> NetworkModel {
    let usual = NetworkModel::default();
    let port_buffer = config.network.port_buffer.unwrap_or(usual.port_buffer);
    let link_rate = config.network.link_rate.unwrap_or(usual.link_rate);
    let mut model = NetworkModel {
        link_rate,
        host_rate: link_rate,
        port_buffer,
        mtu: config.network.mtu.count() as u32,
        ..usual
    };
    // The trunk of the model that stands for each node, or for the nodes above it.
    let mut places: Vec<Option<usize>> = Vec::new();
    for (node, trunk) in layout.topology.nodes().iter().zip(&layout.trunks) {
        let above = node.parent.and_then(|parent| places[parent.get()]);
        let is_link = config.network.trunks[*trunk].kind == TrunkKind::Link;
        places.push(match node.rate.filter(|_| is_link) {
            Some(rate) => {
                let buffer = node.buffer.unwrap_or(UNLIMITED);
                Some(add(
                    &mut model,
                    Trunk { name: node.name.clone(), rate, buffer, above, members: Vec::new() },
                ))
            }
            None => above,
        });
    }
    for uplink in &layout.uplinks {
        let peers = uplink.indexes.iter().map(|index| Peer::Source(SourceId::new(position(index.get()))));
        place(&mut model, layout, &places, uplink, peers.collect(), UNLIMITED);
    }
    for port in &layout.ports {
        let peers = port.indexes.iter().map(|index| Peer::Builder(BuilderId::new(position(index.get()))));
        place(&mut model, layout, &places, port, peers.collect(), port_buffer);
    }
    model
}

/// Returns the id in the simulation of the source or builder at a position.
fn position(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

fn add(model: &mut NetworkModel, trunk: Trunk) -> usize {
    model.trunks.push(trunk);
    model.trunks.len() - 1
}

/// Connects the peers of a link to their switch.
fn place<Id, Index>(
    model: &mut NetworkModel,
    layout: &Layout,
    places: &[Option<usize>],
    link: &Link<Id, Index>,
    peers: Vec<Peer>,
    buffer: Bytes,
) {
    let parent = layout.topology.node(link.node).and_then(|node| node.parent);
    let above = parent.and_then(|parent| places.get(parent.get()).copied().flatten());
    let rate: Rate = link.rate.unwrap_or(model.link_rate);
    if rate != model.link_rate {
        model.links.extend(peers.iter().map(|peer| (*peer, rate)));
    }
    if peers.len() > 1 {
        add(model, Trunk { name: link.name.clone(), rate, buffer, above, members: peers });
    } else if let Some(above) = above {
        model.trunks[above].members.extend(peers);
    }
}
