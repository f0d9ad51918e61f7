//! One table of the configuration file. Serde reads it into a struct ([`Section::read`]), and what
//! serde cannot check is checked afterwards. Reading continues after a problem, so that users see
//! all problems of the file at once.

mod reading;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    endpoint,
    problem::{Problem, Severity, place_of},
    remedies,
    similar::nearest,
};

/// Problems and positions of keys, collected while a configuration is read.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) keys: RefCell<BTreeMap<String, Range<usize>>>,
    /// True if the configuration may contain addresses of other machines.
    pub(super) open: Cell<bool>,
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

/// A table of the file.
pub(super) struct Section<'t> {
    notes: &'t Notes,
    path: String,
    span: Range<usize>,
    entries: Option<&'t DeTable<'t>>,
    /// The only key of a section that has no table, and its value: `sink = "null"` means
    /// `sink = { kind = "null" }`.
    only: Option<(&'static str, &'t Spanned<DeValue<'t>>)>,
    /// Id that replaces `{id}` in texts of the table.
    id: Option<u16>,
    /// Keys that are read apart from the struct.
    apart: &'static [&'static str],
    /// Paths of the keys whose values are wrong.
    wrong: RefCell<BTreeSet<String>>,
    /// True if a required key has no good value.
    lacks: Cell<bool>,
}

impl<'t> Section<'t> {
    /// Creates the section at `path`; without `entries`, the file does not have it.
    pub(super) fn new(
        notes: &'t Notes,
        path: &str,
        span: Range<usize>,
        entries: Option<&'t DeTable<'t>>,
    ) -> Self {
        Self {
            notes,
            path: path.to_owned(),
            span,
            entries,
            only: None,
            id: None,
            apart: &[],
            wrong: RefCell::default(),
            lacks: Cell::new(false),
        }
    }

    /// Returns the same section for one id, which replaces `{id}` in all its texts, including those
    /// in nested tables.
    pub(super) fn for_id(mut self, id: u16) -> Self {
        self.id = Some(id);
        self
    }

    /// Returns the same section, some keys of which are not read by serde.
    pub(super) fn apart(mut self, keys: &'static [&'static str]) -> Self {
        self.apart = keys;
        self
    }

    pub(super) fn notes(&self) -> &'t Notes {
        self.notes
    }

    /// Returns the place of the whole table.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the value at a key, or at a path of keys such as `input.listen`.
    pub(super) fn value(&self, path: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let only = self.only.filter(|(key, _)| *key == first).map(|(_, value)| value);
        let mut found = self.entries.and_then(|entries| entries.get(first)).or(only);
        for key in rest.split_terminator('.') {
            found = found.and_then(|value| value.get_ref().as_table()).and_then(|table| table.get(key));
        }
        found
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.value(path).is_some()
    }

    /// Returns true if serde could not read the value at the path.
    pub(super) fn is_wrong(&self, path: &str) -> bool {
        self.wrong.borrow().contains(&self.key_path(path))
    }

    /// Returns true if the section has a value at the path, and serde could read it.
    pub(super) fn is_good(&self, path: &str) -> bool {
        self.has(path) && !self.is_wrong(path)
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Stores the position of the value at `key`, for later checks and for messages.
    fn keep_place(&self, key: &str, span: Range<usize>) {
        let path = self.key_path(key);
        let mut keys = self.notes.keys.borrow_mut();
        if let Some(id) = self.id {
            keys.insert(place_of(&path, id), span.clone());
        }
        keys.entry(path).or_insert(span);
    }

    /// Notes that the value at a key or path is wrong. If there is no such value, the problem has
    /// the position of the table that lacks it.
    pub(super) fn refuse(&self, path: &str, reason: impl Into<String>, remedy: impl Into<String>) {
        let table = || path.rsplit_once('.').and_then(|(table, _)| self.value(table));
        let span = self.value(path).or_else(table).map_or_else(|| self.span(), |value| value.span());
        self.notes.error(&self.key_path(path), span, reason, remedy);
    }

    /// Notes that there is no value at a key or path.
    pub(super) fn refuse_lack(&self, path: &str) {
        let whole = self.key_path(path);
        let (place, key) = match whole.rsplit_once('.') {
            Some((table, key)) => (format!("`{table}`"), key),
            None => ("the file".to_owned(), path),
        };
        let example = remedies::example(&whole).unwrap_or(key);
        self.refuse(path, format!("{place} has no `{key}`"), format!("add {example}"));
    }

    /// Refuses hosts other than this machine unless the file has a `[security]` section. Returns
    /// true if the host is allowed.
    pub(super) fn allow_host(&self, key: &str, host: &str) -> bool {
        let is_allowed = self.notes.open.get() || endpoint::is_loopback(host);
        if !is_allowed {
            let is_name = key.ends_with("interface") && host.parse::<std::net::IpAddr>().is_err();
            let what = if is_name { "interface" } else { "address" };
            let reason = format!("`{host}` is not a loopback {what}, but there is no [security] section");
            let remedy = "use 127.0.0.1, or add a section [security] with mode = \"psk\" and a key_file (`evbd keygen`), or mode = \"none\" if nothing else is on this network";
            self.refuse(key, reason, remedy);
        }
        is_allowed
    }

    /// Refuses an address that peers cannot use unchanged to connect: with port 0, or of no host in
    /// particular.
    pub(super) fn allow_peer_address(&self, key: &str, address: &endpoint::Endpoint) {
        if !self.allow_host(key, &address.host) {
            return;
        }
        if address.port == 0 {
            let reason = "port 0 lets the system choose a port, and the other hosts would not know which";
            self.refuse(key, reason, "write a port from 1 to 65535, for example 7000");
        } else if endpoint::is_unspecified(&address.host) {
            let reason = format!("other hosts cannot connect to `{}`", address.host);
            self.refuse(key, reason, "name the address by which the other machines reach this one");
        }
    }

    /// Returns a table that is nested in this table.
    pub(super) fn table(&self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        self.keep_place(key, value.span());
        let DeValue::Table(entries) = value.get_ref() else {
            let reason = format!("`{key}` is {}, not a table", describe(value.get_ref()));
            self.refuse(key, reason, remedies::table(&self.key_path(key), key));
            return None;
        };
        let mut section = Self::new(self.notes, &self.key_path(key), value.span(), Some(entries));
        section.id = self.id;
        Some(section)
    }

    /// Returns a section of the file; an absent section is treated as an empty one.
    pub(super) fn table_or_empty(&self, key: &'static str) -> Self {
        let empty = || Self::new(self.notes, &self.key_path(key), self.span(), None);
        self.table(key).unwrap_or_else(empty)
    }

    /// Returns the tables of a list, such as `[[source]]`.
    pub(super) fn list(&self, key: &'static str) -> Vec<Self> {
        let path = self.key_path(key);
        let Some(value) = self.value(key) else { return Vec::new() };
        self.keep_place(key, value.span());
        let DeValue::Array(items) = value.get_ref() else {
            let remedy = format!("write [[{path}]] with double brackets");
            self.refuse(key, format!("`{key}` is not a list of sections"), remedy);
            return Vec::new();
        };
        let table = |item: &'t Spanned<DeValue<'t>>| {
            let entries = item.get_ref().as_table();
            if entries.is_none() {
                let reason = format!("this entry of `{key}` is not a section");
                self.notes.error(
                    &path,
                    item.span(),
                    reason,
                    format!("write a section [[{path}]] for each entry"),
                );
            }
            entries.map(|entries| Self::new(self.notes, &path, item.span(), Some(entries)))
        };
        items.iter().filter_map(table).collect()
    }

    /// Returns a section for each value in a list, or for the value at the key if it is no list.
    /// The value is the only key of its section.
    pub(super) fn each(&self, key: &'static str) -> Vec<Self> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let alone = std::slice::from_ref(value);
        let values = value.get_ref().as_array().map_or(alone, |values| values);
        let section = |value: &'t Spanned<DeValue<'t>>| {
            let section = Self::new(self.notes, &self.path, value.span(), None);
            Self { only: Some((key, value)), id: self.id, ..section }
        };
        values.iter().map(section).collect()
    }

    /// Reports the keys of the table that are not among the known ones.
    pub(super) fn refuse_unknown(&self, known: &[&str]) {
        let known: Vec<&str> = self.apart.iter().chain(known).copied().collect();
        for key in self.entries.into_iter().flat_map(|entries| entries.keys()) {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let all = format!("keys here: {}", known.join(", "));
            let remedy = match nearest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`? ({all})"),
                None => format!("remove it, or write one of the {all}"),
            };
            self.notes.error(&self.key_path(name), key.span(), format!("unknown key `{name}`"), remedy);
        }
    }
}

/// Names the type of a value for people.
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
