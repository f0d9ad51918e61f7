//! One table of the configuration file, read key by key into checked values. Reading continues
//! after a problem, so that users see all problems of the file at once.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::IpAddr,
    ops::Range,
    time::Duration,
};

use evb_core::units::{Bytes, Frequency, Rate, UnitError, parse_duration};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    endpoint::{self, Endpoint},
    problem::{Problem, Severity, place_of},
    similar::nearest,
    template,
};

/// Problems and positions of keys, collected while a configuration is read.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) keys: RefCell<BTreeMap<String, Range<usize>>>,
    /// True if the configuration may contain addresses of other machines.
    pub(super) open: Cell<bool>,
    /// Every key that the reader looked up, for tests that compare the keys with the documentation
    /// and with the schema.
    #[cfg(test)]
    pub(super) asked: RefCell<std::collections::BTreeSet<Asked>>,
}

/// A key that the reader looked up in a table.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    /// Path of the table, such as `supervisor.trigger`; empty for the file itself.
    pub(super) table: String,
    /// The table's value of `kind`, which decides what other keys the table may have.
    pub(super) kind: Option<String>,
    pub(super) key: String,
}

impl Notes {
    pub(super) fn error(
        &self,
        key: &str,
        span: Range<usize>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (reason, remedy) = (reason.into(), remedy.into());
        let problem = Problem { severity: Severity::Error, key: key.to_owned(), span, reason, remedy };
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }
}

/// A table that is being read. Every key that the reader looks up becomes known, and
/// [`Section::finish`] reports the other keys of the table.
pub(super) struct Section<'t> {
    notes: &'t Notes,
    path: String,
    span: Range<usize>,
    entries: Option<&'t DeTable<'t>>,
    /// A text in place of a table: `sink = "null"` means `sink = { kind = "null" }`.
    kind: Option<&'t Spanned<DeValue<'t>>>,
    /// Id that replaces `{id}` in texts of the table.
    id: Option<u16>,
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    pub(super) fn new(
        notes: &'t Notes,
        path: &str,
        span: Range<usize>,
        entries: Option<&'t DeTable<'t>>,
    ) -> Self {
        Self { notes, path: path.to_owned(), span, entries, kind: None, id: None, known: Vec::new() }
    }

    /// Returns the same section for one id, which replaces `{id}` in all its texts, including those
    /// in nested tables.
    pub(super) fn for_id(mut self, id: u16) -> Self {
        self.id = Some(id);
        self
    }

    pub(super) fn notes(&self) -> &'t Notes {
        self.notes
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.is_some_and(|entries| entries.contains_key(key))
    }

    pub(super) fn is_table(&self, key: &str) -> bool {
        self.entries.and_then(|entries| entries.get(key)).is_some_and(|value| value.get_ref().is_table())
    }

    pub(super) fn is_text(&self, key: &str) -> bool {
        self.entries.and_then(|entries| entries.get(key)).is_some_and(|value| value.get_ref().is_str())
    }

    pub(super) fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns the value at `key` without any conversion, and marks the key as known.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        #[cfg(test)]
        self.record(key);
        let given = self.entries.and_then(|entries| entries.get(key));
        let given = given.or_else(|| self.kind.filter(|_| key == "kind"))?;
        self.notes.keys.borrow_mut().entry(self.key_path(key)).or_insert_with(|| given.span());
        Some(given)
    }

    #[cfg(test)]
    fn record(&self, key: &str) {
        let kind = self.kind.or_else(|| self.entries.and_then(|entries| entries.get("kind")));
        let kind = kind.and_then(|kind| kind.get_ref().as_str()).map(str::to_owned);
        let asked = Asked { table: self.path.clone(), kind, key: key.to_owned() };
        self.notes.asked.borrow_mut().insert(asked);
    }

    /// Stores the position of the value at `key` of this entry for later checks, which find it with
    /// [`Origin::span_of`].
    ///
    /// [`Origin::span_of`]: super::Origin::span_of
    pub(super) fn keep_place(&self, key: &str) {
        let given = self.entries.and_then(|entries| entries.get(key));
        if let (Some(given), Some(id)) = (given, self.id) {
            self.notes.keys.borrow_mut().insert(place_of(&self.key_path(key), id), given.span());
        }
    }

    /// Notes that the value at `key` is wrong. If the section has no such value, the problem has
    /// the position of the section.
    pub(super) fn refuse(&self, key: &str, reason: impl Into<String>, remedy: impl Into<String>) {
        let given = self.entries.and_then(|entries| entries.get(key));
        let given = given.or_else(|| self.kind.filter(|_| key == "kind"));
        let span = given.map_or_else(|| self.span.clone(), |value| value.span());
        self.notes.error(&self.key_path(key), span, reason, remedy);
    }

    /// Returns `value`; notes a problem if the section lacks the key.
    pub(super) fn need<T>(&self, key: &str, value: Option<T>, example: &str) -> Option<T> {
        if value.is_none() && !self.has(key) && (self.kind.is_none() || key != "kind") {
            let place = if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path) };
            self.refuse(key, format!("{place} has no `{key}`"), format!("add {example}"));
        }
        value
    }

    fn wrong_kind(&self, key: &str, value: &DeValue<'_>, wanted: &str, example: &str) {
        self.refuse(key, format!("`{key}` is {}, not {wanted}", describe(value)), format!("write {example}"));
    }

    /// Reads a text and replaces `{id}` in it.
    pub(super) fn text(&mut self, key: &'static str, example: &str) -> Option<String> {
        let value = self.value(key)?;
        match (value.get_ref().as_str(), self.id) {
            (None, _) => {
                self.wrong_kind(key, value.get_ref(), "text", example);
                None
            }
            (Some(text), Some(id)) => match template::expand(text, id) {
                Ok(text) => Some(text),
                Err(error) => {
                    self.refuse(key, error.to_string(), "write `{id}`, or a sum such as `{7100+id}`");
                    None
                }
            },
            (Some(text), None) => Some(text.to_owned()),
        }
    }

    /// Reads a quantity with a unit; `parse` converts its text.
    pub(super) fn quantity<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: fn(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        let value = self.value(key)?;
        if let DeValue::Integer(_) | DeValue::Float(_) = value.get_ref() {
            self.refuse(
                key,
                format!("`{key}` is a bare number: it needs a unit"),
                format!("write {example}"),
            );
            return None;
        }
        let text = self.text(key, example)?;
        match parse(&text) {
            Ok(quantity) => Some(quantity),
            Err(error) => {
                let (reason, remedy) = explain(&error);
                self.refuse(key, reason, remedy);
                None
            }
        }
    }

    /// Reads a size.
    pub(super) fn bytes(&mut self, key: &'static str) -> Option<Bytes> {
        self.quantity(key, &format!("for example {key} = \"64 KiB\""), str::parse)
    }

    /// Reads a size above zero.
    pub(super) fn some_bytes(&mut self, key: &'static str) -> Option<Bytes> {
        let bytes = self.bytes(key)?;
        if bytes == Bytes::ZERO {
            self.refuse(key, format!("`{key}` is zero"), "give a size above zero");
            return None;
        }
        Some(bytes)
    }

    /// Reads a data rate.
    pub(super) fn rate(&mut self, key: &'static str) -> Option<Rate> {
        self.quantity(key, &format!("for example {key} = \"1 Gbit/s\""), str::parse)
    }

    /// Reads a frequency.
    pub(super) fn frequency(&mut self, key: &'static str) -> Option<Frequency> {
        self.quantity(key, &format!("for example {key} = \"2 kHz\""), str::parse)
    }

    /// Reads a time above zero.
    pub(super) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let time = self.quantity(key, &format!("for example {key} = \"2 s\""), parse_duration)?;
        if time.is_zero() {
            self.refuse(key, format!("`{key}` is zero"), "give a time above zero");
            return None;
        }
        Some(time)
    }

    /// Reads a whole number from `range`; in an entry with ids, a text with `{id}` is accepted too.
    pub(super) fn whole(&mut self, key: &'static str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let remedy = format!("give a whole number from {} to {}, without quotes", range.start(), range.end());
        let number = match value.get_ref() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
            DeValue::String(_) if self.id.is_some() => self.text(key, "a whole number")?.parse().ok(),
            other => {
                self.refuse(key, format!("`{key}` is {}, not a whole number", describe(other)), remedy);
                return None;
            }
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.refuse(key, format!("this is not a possible value of `{key}`"), remedy);
        }
        number
    }

    /// Reads a whole number from 1 to `most`.
    pub(super) fn count(&mut self, key: &'static str, most: u32) -> Option<u32> {
        self.whole(key, 1..=u64::from(most)).and_then(|number| u32::try_from(number).ok())
    }

    /// Reads `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_kind(key, value.get_ref(), "true or false", &format!("{key} = true"));
        }
        flag
    }

    /// Reads a word and returns the value that belongs to it in `choices`.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        self.choice_or(key, choices, |_| None)
    }

    /// Reads one of several words; `replaced` gives reason and remedy for a word that an older
    /// version knew.
    pub(super) fn choice_or<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
        replaced: impl FnOnce(&str) -> Option<(String, String)>,
    ) -> Option<T> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let all = format!("one of {}", quoted(&words));
        let text = self.text(key, &all)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let (reason, remedy) = replaced(&text).unwrap_or_else(|| {
                let remedy = nearest(&text, words)
                    .map_or_else(|| all.clone(), |word| format!("did you mean `{word}`? ({all})"));
                (format!("`{text}` is not a {key} that evb knows"), remedy)
            });
            self.refuse(key, reason, remedy);
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Returns a table that is nested in this table.
    pub(super) fn table(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong_kind(key, value.get_ref(), "a table", &format!("{key} = {{ … }} or a section"));
            return None;
        };
        let mut section = Section::new(self.notes, &self.key_path(key), value.span(), Some(entries));
        section.id = self.id;
        Some(section)
    }

    /// Returns a section of the file; an absent section is treated as an empty one.
    pub(super) fn table_or_empty(&mut self, key: &'static str) -> Self {
        self.table(key)
            .unwrap_or_else(|| Section::new(self.notes, &self.key_path(key), self.span.clone(), None))
    }

    /// Reads a table with the key `kind`, or a text that is the value of `kind`.
    pub(super) fn kinded(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        if value.get_ref().as_str().is_none() {
            return self.table(key);
        }
        let mut section = Section::new(self.notes, &self.key_path(key), value.span(), None);
        section.kind = Some(value);
        section.id = self.id;
        Some(section)
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, key: &'static str, example: &str) -> Option<Vec<String>> {
        let value = self.value(key)?;
        let texts = value.get_ref().as_array().and_then(|array| {
            array.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            self.wrong_kind(key, value.get_ref(), "a list of texts", example);
        }
        texts
    }

    /// Reads a host on which a role listens or from which it sends.
    pub(super) fn host(&mut self, key: &'static str) -> Option<String> {
        let host = self.bare_host(key)?;
        self.allow_host(key, &host)?;
        Some(host)
    }

    /// Reads a host name or address without checking whether `[security]` permits it.
    fn bare_host(&mut self, key: &'static str) -> Option<String> {
        let host = self.text(key, &format!("for example {key} = \"127.0.0.1\""))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        if !endpoint::is_host(bare) {
            let reason = format!("`{host}` is neither a host name nor an address");
            self.refuse(key, reason, "write a name or an IPv4 or IPv6 address, without a port");
            return None;
        }
        Some(bare.to_owned())
    }

    /// Reads an IP address of the host on which the role runs. Names are refused, because a name
    /// may have several addresses, and may resolve to different addresses on different hosts.
    pub(super) fn local_address(&mut self, key: &'static str) -> Option<String> {
        let host = self.bare_host(key)?;
        if host.parse::<IpAddr>().is_err() {
            let reason = format!("`{host}` is not an IP address");
            self.refuse(key, reason, "write the IPv4 or IPv6 address to send from, without a port");
            return None;
        }
        self.allow_host(key, &host)?;
        Some(host)
    }

    /// Reads an address at which a role listens.
    pub(super) fn endpoint(&mut self, key: &'static str) -> Option<Endpoint> {
        let endpoint = self.any_endpoint(key)?;
        self.allow_host(key, &endpoint.host)?;
        Some(endpoint)
    }

    /// Reads an address without checking whether `[security]` permits it.
    pub(super) fn any_endpoint(&mut self, key: &'static str) -> Option<Endpoint> {
        let text = self.text(key, &format!("for example {key} = \"127.0.0.1:7000\""))?;
        match text.parse::<Endpoint>() {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                let remedy = "write \"host:port\", as \"127.0.0.1:7000\", \"daq1:7000\" or \"[::1]:7000\"";
                self.refuse(key, format!("`{text}` is not an address: {error}"), remedy);
                None
            }
        }
    }

    /// Reads an address that peers use unchanged to connect. Port 0 and unspecified hosts are
    /// refused.
    pub(super) fn peer_endpoint(&mut self, key: &'static str) -> Option<Endpoint> {
        let endpoint = self.endpoint(key)?;
        if endpoint.port == 0 {
            self.refuse(
                key,
                "port 0 lets the system choose a port, and no peer would know which",
                "write a port, for example 7000",
            );
            return None;
        }
        if endpoint::is_unspecified(&endpoint.host) {
            let reason = format!("peers cannot connect to `{}`", endpoint.host);
            self.refuse(key, reason, "name the address by which the other machines reach this one");
            return None;
        }
        Some(endpoint)
    }

    /// Refuses hosts other than this machine unless the file has a `[security]` section.
    pub(super) fn allow_host(&self, key: &str, host: &str) -> Option<()> {
        if self.notes.open.get() || endpoint::is_loopback(host) {
            return Some(());
        }
        let reason = format!("`{host}` is not a loopback address, but there is no [security] section");
        let remedy = "use 127.0.0.1, or add a section [security] with mode = \"psk\" and a key_file (`evbd keygen`), or mode = \"none\" if nothing else is on this network";
        self.refuse(key, reason, remedy);
        None
    }

    /// Reports the keys of the table that the reader never looked up.
    pub(super) fn finish(self) {
        let Some(entries) = self.entries else { return };
        for key in entries.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let all = format!("keys here: {}", self.known.join(", "));
            let remedy = nearest(name, self.known.iter().copied())
                .map_or_else(|| all.clone(), |meant| format!("did you mean `{meant}`? ({all})"));
            self.notes.error(&self.key_path(name), key.span(), format!("unknown key `{name}`"), remedy);
        }
    }
}

/// Joins words with quotes and commas for a message: `"a", "b"`.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the unit that was probably meant. In `Gb/s`, a small b stands for bits, although `GB/s`
/// is more similar.
fn meant_unit<'a>(unit: &str, units: &'a str) -> Option<&'a str> {
    let bits = unit.replace("b/s", "bit/s").replace("bps", "bit/s");
    let in_bits = units.split(", ").find(|known| *known == bits);
    in_bits.or_else(|| nearest(unit, units.split(", ")))
}

/// Returns the reason and the remedy that the message of a unit error contains.
fn explain(error: &UnitError) -> (String, String) {
    let text = error.to_string();
    let (reason, remedy) = text.split_once("; ").unwrap_or((&text, "give a number and a unit"));
    match error {
        UnitError::UnknownUnit { unit, units, .. } => match meant_unit(unit, units) {
            Some(meant) => (reason.to_owned(), format!("did you mean `{meant}`? ({remedy})")),
            None => (reason.to_owned(), remedy.to_owned()),
        },
        _ => (reason.to_owned(), remedy.to_owned()),
    }
}
