//! Asks the search of the website for words that users look for. The search is elasticlunr's: the
//! index has a tree of stemmed words with the pages of each, and the text of the pages.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Words that users type. Each must lead to at least one page.
const WORDS: [&str; 24] = [
    "online",
    "monitoring",
    "MIDAS",
    "artdaq",
    "DABC",
    "wrap",
    "ethtool",
    "UTC",
    "logbook",
    "hardware",
    "trigger",
    "dead time",
    "Python",
    "HDF5",
    "ROOT",
    "merge",
    "key",
    "systemd",
    "Slurm",
    "buffer",
    "counter",
    "clock",
    "journal",
    "misbehaves",
];

/// Fewest letters of a stem, and most letters that a word has beyond its stem.
const LEAST: usize = 3;
const ENDING: usize = 3;

/// Fields of a page that the search looks into.
const FIELDS: [&str; 2] = ["title", "body"];

/// Returns a line for each of the words for which the search of the website finds no page.
pub(super) fn unknown(site: &Path) -> Result<Vec<String>> {
    let index = load(site)?;
    let unknown = WORDS.iter().filter(|word| found(&index, word).is_empty());
    Ok(unknown.map(|word| format!("the search finds no page for `{word}`")).collect())
}

/// Reads the index: a script that hands a string with JSON to the page.
fn load(site: &Path) -> Result<Value> {
    for entry in fs::read_dir(site)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("searchindex") && name.ends_with(".js") {
            return parse(&fs::read_to_string(&path)?).with_context(|| path.display().to_string());
        }
    }
    bail!("{} has no index for the search", site.display())
}

/// Returns the JSON in a script, which is between single quotes and has backslashes before quotes
/// and backslashes.
fn parse(script: &str) -> Result<Value> {
    let quoted = script.split_once("JSON.parse('").context("there is no JSON in it")?.1;
    let (mut json, mut letters) = (String::with_capacity(quoted.len()), quoted.chars());
    loop {
        match letters.next().context("its JSON has no end")? {
            '\'' => break,
            '\\' => json.extend(letters.next()),
            letter => json.push(letter),
        }
    }
    Ok(serde_json::from_str(&json)?)
}

/// Returns the places that the search finds for these words: those that the tree has for every
/// word, and whose text contains the words as they are.
fn found(index: &Value, words: &str) -> BTreeSet<String> {
    let (index, wanted) = (&index["index"], words.to_lowercase());
    let mut places: Option<BTreeSet<String>> = None;
    for word in wanted.split(' ') {
        let of_word: BTreeSet<String> =
            FIELDS.iter().flat_map(|field| below(&index["index"][field]["root"], word)).collect();
        places = Some(match places {
            Some(before) => &before & &of_word,
            None => of_word,
        });
    }
    let mut places = places.unwrap_or_default();
    places.retain(|place| {
        let page = &index["documentStore"]["docs"][place];
        FIELDS
            .iter()
            .any(|field| page[field].as_str().is_some_and(|text| text.to_lowercase().contains(&wanted)))
    });
    places
}

/// Returns the places that a tree of words has for a word. The tree has only the stem of a word,
/// its first letters.
fn below(root: &Value, word: &str) -> Vec<String> {
    let mut node = root;
    let mut found = Vec::new();
    for (place, letter) in word.char_indices() {
        node = &node[letter.encode_utf8(&mut [0; 4]) as &str];
        if place + 1 >= LEAST.max(word.len().saturating_sub(ENDING)) {
            found.extend(node["docs"].as_object().into_iter().flat_map(|docs| docs.keys().cloned()));
        }
    }
    found
}

#[cfg(test)]
mod tests;
