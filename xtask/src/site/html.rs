//! Follows every link of the website: to a file, and to the place in it that the link names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

use crate::{repo::Repo, tidy::links::resolve};

/// Attributes whose value is a link, and those that make a place to which links lead.
const LINKS: [&str; 2] = ["href", "src"];
const PLACES: [&str; 2] = ["id", "name"];

/// Returns a line for each link in the website's pages that leads nowhere.
pub(super) fn broken(site: &Path) -> Result<Vec<String>> {
    let files = Repo::load(site)?;
    let mut pages = BTreeMap::new();
    for file in files.files().iter().filter(|file| file.path.ends_with(".html")) {
        pages.insert(file.path.as_str(), fs::read_to_string(site.join(&file.path))?);
    }
    let places: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (*path, values(text, &PLACES).collect())).collect();
    let mut found = Vec::new();
    for (page, text) in &pages {
        for link in values(text, &LINKS) {
            let leads = leads(page, &link, |path| files.exists(path), &places);
            found.extend((!leads).then(|| format!("{page}: the link `{link}` leads nowhere")));
        }
    }
    Ok(found)
}

/// Returns true if a link of `page` leads to another server, or to an existing file and place.
fn leads(
    page: &str,
    link: &str,
    exists: impl Fn(&str) -> bool,
    places: &BTreeMap<&str, BTreeSet<String>>,
) -> bool {
    if ["://", "mailto:", "data:", "javascript:"].iter().any(|other| link.contains(other)) {
        return true;
    }
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let Some(path) = resolve(page, path) else { return false };
    let has_place = || places.get(path.as_str()).is_none_or(|of_page| of_page.contains(place));
    exists(&path) && (place.is_empty() || has_place())
}

/// Returns the values that the tags of a page give to these attributes, in double quotes.
fn values<'a>(text: &'a str, attributes: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let tags = text.split('<').skip(1).filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag);
    tags.flat_map(|tag| {
        let mut parts = tag.split('"');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    })
    .filter(|(name, _)| {
        let name = name.trim_end().strip_suffix('=').unwrap_or_default();
        attributes.iter().any(|attribute| name.rsplit(char::is_whitespace).next() == Some(attribute))
    })
    .map(|(_, value)| value.replace("&amp;", "&").replace("%20", " "))
}

#[cfg(test)]
mod tests;
