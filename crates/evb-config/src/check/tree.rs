//! The tree of switches as text: each node with its rate, load, buffer and what may be under way.

#[cfg(test)]
mod tests;

use evb_core::units::Bytes;

use super::tables::{configured, of_buffer, percent, rate, table};
use crate::{
    Config,
    admission::{NodeSum, PortSum, Sums, UplinkSum, narrowest},
    ranges,
};

/// Formats the tree; empty if the configuration has no trunks. Nodes that differ only in their
/// names share a row.
pub(super) fn tree(config: &Config, sums: &Sums) -> String {
    if sums.nodes.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec!["the switch at the root".to_owned()]];
    let least = narrowest(config, sums).map(|(events, _)| events);
    for block in blocks(&Page { config, sums, least }) {
        block.write(1, 1, &mut rows);
    }
    let head = ["node", "lanes go", "rate", "load", "buffer", "under way at most", ""];
    table("\nNetwork", &head, &rows)
}

/// The sums from which all rows of the page follow.
struct Page<'p> {
    config: &'p Config,
    sums: &'p Sums,
    /// The event rate that the narrowest node carries.
    least: Option<f64>,
}

/// A node, or several nodes that are alike, with everything behind them.
#[derive(Clone, Debug)]
struct Block {
    nodes: Nodes,
    /// The cells of a row for each direction that lanes cross.
    cells: Vec<[String; 6]>,
    children: Vec<Self>,
    /// Number of nodes in this block.
    count: usize,
}

#[derive(Clone, Debug)]
enum Nodes {
    /// Kind and names of trunks.
    Trunks(&'static str, Vec<String>),
    /// Ids of sources or builders, as the word says.
    Ends(&'static str, Vec<u16>),
}

impl Block {
    /// Returns true if two blocks differ only in names and ids.
    fn is_alike(&self, other: &Self) -> bool {
        // A block may stand for several nodes already, so numbers are compared for each node.
        let nodes = match (&self.nodes, &other.nodes) {
            (Nodes::Trunks(kind, _), Nodes::Trunks(other, _)) => kind == other,
            (Nodes::Ends(kind, ids), Nodes::Ends(other_kind, others)) => {
                kind == other_kind && ids.len() / self.count == others.len() / other.count
            }
            _ => false,
        };
        nodes
            && self.cells == other.cells
            && self.children.len() == other.children.len()
            && self.children.iter().zip(&other.children).all(|(one, other)| one.is_alike(other))
            && self
                .children
                .iter()
                .zip(&other.children)
                .all(|(one, child)| one.count / self.count == child.count / other.count)
    }

    /// Merges another block of the same form into this one.
    fn merge(&mut self, other: Self) {
        match (&mut self.nodes, other.nodes) {
            (Nodes::Trunks(_, names), Nodes::Trunks(_, others)) => names.extend(others),
            (Nodes::Ends(_, ids), Nodes::Ends(_, others)) => ids.extend(others),
            _ => {}
        }
        self.count += other.count;
        for (child, other) in self.children.iter_mut().zip(other.children) {
            child.merge(other);
        }
    }

    /// Adds the rows of the block; `above` is the number of nodes that it is behind.
    fn write(&self, depth: usize, above: usize, rows: &mut Vec<Vec<String>>) {
        let indent = "  ".repeat(depth);
        for (line, cells) in self.cells.iter().enumerate() {
            let name = if line == 0 { format!("{indent}{}", self.name(above)) } else { String::new() };
            rows.push([name].into_iter().chain(cells.iter().cloned()).collect());
        }
        if self.cells.is_empty() {
            rows.push(vec![format!("{indent}{}", self.name(above)), "no lane".to_owned()]);
        }
        for child in &self.children {
            child.write(depth + 1, self.count, rows);
        }
    }

    /// Returns the name of the block's nodes; `above` is the number of nodes that they are behind.
    fn name(&self, above: usize) -> String {
        match &self.nodes {
            Nodes::Trunks(kind, names) => match names.as_slice() {
                [one] => format!("{kind} {one}"),
                [first, .., last] => format!("{kind}s {first} … {last}"),
                [] => String::new(),
            },
            Nodes::Ends(kind, ids) => {
                let mut ids = ids.clone();
                ids.sort_unstable();
                let (all, each) = (ids.len(), ids.len() / self.count);
                let several = if all == 1 { "" } else { "s" };
                let mut name = format!("{kind}{several} {}", ranges(ids.into_iter()));
                if above > 1 {
                    name += &format!(", {} behind each", all / above);
                }
                if each > 1 {
                    name += &format!(", {each} on each link");
                }
                name
            }
        }
    }
}

/// Returns the blocks directly behind the root.
fn blocks(page: &Page<'_>) -> Vec<Block> {
    let sums = page.sums;
    let mut behind: Vec<Vec<Block>> = vec![Vec::new(); sums.nodes.len() + 1];
    // Place 0 is the root.
    let place = |node: Option<usize>| node.map_or(0, |node| node + 1);
    for uplink in &sums.uplinks {
        add(&mut behind[place(uplink.trunk)], page.uplink(uplink));
    }
    for port in &sums.ports {
        add(&mut behind[place(port.trunk)], page.port(port));
    }
    // A trunk is complete before the trunk that it is behind.
    for (index, node) in sums.nodes.iter().enumerate().rev() {
        let children = std::mem::take(&mut behind[index + 1]);
        let block = page.trunk(node, children);
        behind[place(node.parent)].push(block);
    }
    merged(std::mem::take(&mut behind[0]))
}

/// Adds a block to the first one that is alike.
fn add(blocks: &mut Vec<Block>, block: Block) {
    match blocks.iter_mut().find(|known| known.is_alike(&block)) {
        Some(known) => known.merge(block),
        None => blocks.push(block),
    }
}

/// Puts sources first, then builders, then trunks in the order of the configuration.
fn merged(blocks: Vec<Block>) -> Vec<Block> {
    let (ends, mut trunks): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| matches!(block.nodes, Nodes::Ends(..)));
    trunks.reverse();
    let mut all = Vec::new();
    ends.into_iter().chain(trunks).for_each(|block| add(&mut all, block));
    all
}

impl Page<'_> {
    fn binds(&self, events: Option<f64>) -> String {
        let is_least = events.zip(self.least).is_some_and(|(events, least)| events <= least * (1.0 + 1e-9));
        if is_least { "binds".to_owned() } else { String::new() }
    }

    /// Returns the block of a link from sources.
    fn uplink(&self, uplink: &UplinkSum) -> Block {
        let cells = [
            "up".to_owned(),
            configured(uplink.rate),
            load(uplink.load, uplink.utilisation),
            "-".to_owned(),
            "-".to_owned(),
            self.binds(uplink.carried()),
        ];
        let ids = uplink.sources.iter().map(|id| id.number()).collect();
        Block { nodes: Nodes::Ends("source", ids), cells: vec![cells], children: Vec::new(), count: 1 }
    }

    /// Returns the block of a port of builders.
    fn port(&self, port: &PortSum) -> Block {
        let buffer = self.config.network.port_buffer;
        let cells = [
            "down".to_owned(),
            configured(port.rate),
            load(port.load, port.utilisation),
            buffer.map_or_else(|| "?".to_owned(), |buffer| buffer.to_string()),
            part_of(port.under_way(self.config.shaping.mode), buffer),
            self.binds(port.carried(self.config, self.sums)),
        ];
        let ids = port.builders.iter().map(|id| id.number()).collect();
        Block { nodes: Nodes::Ends("builder", ids), cells: vec![cells], children: Vec::new(), count: 1 }
    }

    /// Returns the block of a trunk with what is behind it.
    fn trunk(&self, node: &NodeSum, children: Vec<Block>) -> Block {
        let cells = node.queues.iter().map(|queue| {
            [
                queue.direction.word().to_owned(),
                node.rate.map_or_else(|| "-".to_owned(), |known| known.to_string()),
                load(queue.load, queue.utilisation),
                node.buffer.map_or_else(|| "-".to_owned(), |buffer| buffer.to_string()),
                part_of(queue.under_way(self.config.shaping.mode), node.buffer),
                self.binds(queue.carried),
            ]
        });
        Block {
            nodes: Nodes::Trunks(node.kind.word(), vec![node.name.clone()]),
            cells: cells.collect(),
            children: merged(children),
            count: 1,
        }
    }
}

fn load(load: Option<evb_core::units::Rate>, part: Option<f64>) -> String {
    match (load, part) {
        (None, _) => "?".to_owned(),
        (load, None) => rate(load),
        (load, part) => format!("{} ({})", rate(load), percent(part)),
    }
}

fn part_of(held: Option<Bytes>, buffer: Option<Bytes>) -> String {
    held.map_or_else(|| "-".to_owned(), |held| of_buffer(held, buffer))
}
