//! The deserializer with which serde reads a [`Section`].
//!
//! Serde stops at the first error, but users want to see all of them. So a wrong value is noted and
//! left out, and the table is read again without it, until serde succeeds. A required key without a
//! good value gets a stand-in; then the struct only serves to find more problems
//! ([`Section::finish`]).

use std::{borrow::Cow, cell::RefCell, collections::BTreeSet, fmt, slice};

use serde::{
    de::{
        self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer,
        MapAccess, Unexpected, VariantAccess, Visitor,
        value::{SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use toml::{Spanned, de::DeValue};

use super::{Section, describe};
use crate::{
    forms::{BREAK, KEY, one_of, unknown_word, wrong},
    remedies, template,
};

impl Section<'_> {
    /// Reads the table into a struct and notes all problems, unknown keys among them. Returns
    /// `None` only if serde cannot make the struct at all.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        self.read_with(&KeysRead::default())
    }

    /// Reads a part of the table; the other keys are read with another struct.
    pub(crate) fn read_part<T: DeserializeOwned>(&self) -> Option<T> {
        let progress = KeysRead::default();
        progress.searched.borrow_mut().insert(self.path.clone());
        self.read_with(&progress)
    }

    /// Reads the section's keys into a struct, again without each wrong key, which is noted.
    fn read_with<T: DeserializeOwned>(&self, progress: &KeysRead) -> Option<T> {
        loop {
            let before = progress.steps();
            match T::deserialize(Table { section: Some(self), progress }) {
                Ok(value) => {
                    self.wrong.borrow_mut().append(&mut progress.wrong.borrow_mut());
                    self.lacks.set(self.lacks.get() || !progress.lacking.borrow().is_empty());
                    return Some(value);
                }
                Err(_) if progress.steps() > before => {}
                Err(stop) => {
                    let reason = format!("this section cannot be read: {stop}");
                    let remedy = "compare its keys with docs/reference/configuration.md";
                    self.notes.error(&self.path, self.span(), reason, remedy);
                    return None;
                }
            }
        }
    }

    /// Returns a struct that was read from the section; `None` if a required key of it has no good
    /// value.
    pub(crate) fn finish<T>(&self, value: T) -> Option<T> {
        (!self.lacks.get()).then_some(value)
    }
}

/// The paths of the keys about which reading has learned something.
#[derive(Default)]
struct KeysRead {
    /// Keys with wrong values, which are left out.
    wrong: RefCell<BTreeSet<String>>,
    /// Required keys without a good value, which get stand-ins.
    lacking: RefCell<BTreeSet<String>>,
    /// Tables whose unknown keys were reported.
    searched: RefCell<BTreeSet<String>>,
}

impl KeysRead {
    /// Returns a number that grows with everything that is noted.
    fn steps(&self) -> usize {
        self.wrong.borrow().len() + self.lacking.borrow().len()
    }

    /// Notes the reason why serde could not read a value.
    fn refuse(
        &self,
        section: &Section<'_>,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        stop: StopReason,
    ) -> StopReason {
        let path = section.key_path(key);
        let (reason, remedy) = match stop {
            // These are noted where they occur, in the table that has the key.
            StopReason::Noted | StopReason::Missing(_) => return stop,
            StopReason::Wrong { reason, remedy } => (reason, remedy),
            StopReason::Type { wanted, remedy } => {
                let example = || remedies::example(&path).unwrap_or(wanted.as_str()).to_owned();
                let remedy = remedy.unwrap_or_else(|| format!("write {}", example()));
                (format!("`{KEY}` is {}, not {wanted}", describe(value.get_ref())), remedy)
            }
        };
        section.notes.error(&path, value.span(), reason.replace(KEY, key), remedy.replace(KEY, key));
        self.wrong.borrow_mut().insert(path);
        StopReason::Noted
    }

    /// Notes that a required key has no good value.
    fn lack(&self, section: &Section<'_>, key: &str) {
        let path = section.key_path(key);
        if !self.wrong.borrow().contains(&path) {
            section.refuse_lack(key);
        }
        self.lacking.borrow_mut().insert(path);
    }
}

/// The reason why serde stopped.
#[derive(Debug, thiserror::Error)]
enum StopReason {
    /// A value has a good type, but is wrong.
    #[error("{reason}")]
    Wrong { reason: String, remedy: String },
    /// A value has a wrong type; without a remedy, that of the key's example.
    #[error("not {wanted}")]
    Type { wanted: String, remedy: Option<String> },
    /// A required key is missing.
    #[error("no `{0}`")]
    Missing(&'static str),
    /// A problem that was noted already.
    #[error("noted already")]
    Noted,
}

impl StopReason {
    fn wrong_type(wanted: &str, remedy: String) -> Self {
        Self::Type { wanted: wanted.to_owned(), remedy: Some(remedy) }
    }

    fn wrong_text(wanted: &str) -> Self {
        Self::Type { wanted: wanted.to_owned(), remedy: None }
    }
}

impl de::Error for StopReason {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        let usual = "write a value that docs/reference/configuration.md lists for this key";
        let (reason, remedy) = message.split_once(BREAK).unwrap_or((&message, usual));
        Self::Wrong { reason: reason.to_owned(), remedy: remedy.to_owned() }
    }

    /// Creates the reason for a value of a wrong type; what was expected may contain a remedy.
    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let wanted = wanted.to_string();
        match wanted.split_once(BREAK) {
            Some((wanted, remedy)) => {
                Self::Type { wanted: wanted.to_owned(), remedy: Some(remedy.to_owned()) }
            }
            None => Self::Type { wanted, remedy: None },
        }
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Missing(key)
    }
}

/// A table from which serde reads a struct; without a section, all its values are stand-ins.
#[derive(Clone, Copy)]
struct Table<'r, 't> {
    section: Option<&'r Section<'t>>,
    progress: &'r KeysRead,
}

impl Table<'_, '_> {
    /// Gives the keys of a table to the struct that reads them, and refuses unknown keys.
    fn visit<'de, V: Visitor<'de>>(
        self,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StopReason> {
        let Self { section, progress } = self;
        let result = visitor.visit_map(Keys { table: self, keys: keys.iter(), value: None });
        let Some(section) = section else { return result };
        match result {
            Err(StopReason::Missing(key)) => {
                progress.lack(section, key);
                Err(StopReason::Noted)
            }
            Ok(value) => {
                if progress.searched.borrow_mut().insert(section.path.clone()) {
                    section.refuse_unknown(keys);
                }
                Ok(value)
            }
            Err(other) => Err(other),
        }
    }
}

impl<'de> Deserializer<'de> for Table<'_, '_> {
    type Error = StopReason;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        self.visit(&[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StopReason> {
        self.visit(fields, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The keys of a struct that have a value, or need a stand-in.
struct Keys<'r, 't> {
    table: Table<'r, 't>,
    keys: slice::Iter<'static, &'static str>,
    value: Option<Value<'r, 't>>,
}

impl<'de> MapAccess<'de> for Keys<'_, '_> {
    type Error = StopReason;

    /// Returns the next key that has a right value, or gets a stand-in.
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, StopReason> {
        let Table { section, progress } = self.table;
        for key in self.keys.by_ref().copied() {
            let path = section.map(|section| section.key_path(key)).unwrap_or_default();
            // A key that is missing and needed gets a stand-in.
            let is_stand_in = section.is_none() || progress.lacking.borrow().contains(&path);
            let given = section.filter(|_| !is_stand_in).and_then(|section| section.value(key));
            let is_good = given.is_some() && !progress.wrong.borrow().contains(&path);
            if is_good || is_stand_in {
                self.value = Some(Value { table: self.table, key, given, of: "" });
                let key: StrDeserializer<'_, StopReason> = key.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the value of the key that was returned last, and notes its place or its fault.
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, StopReason> {
        let Some(value) = self.value.take() else { return Err(StopReason::Noted) };
        let (key, given) = (value.key, value.given);
        let result = seed.deserialize(value);
        let Some((section, given)) = self.table.section.zip(given) else { return result };
        section.keep_place(key, given.span());
        result.map_err(|stop| self.table.progress.refuse(section, key, given, stop))
    }
}

// Names by which enums tell how a value chooses the variant; otherwise the value is a word.

/// The key `kind` of a table, or a text in place of a table that has only this key.
const BY_KIND: &str = "kind";
/// The key `kind` of a table.
const BY_KIND_OF_TABLE: &str = "kind of table";
/// The type of the value, for an enum with these two variants.
const BY_TYPE: &str = "text or table";

/// The value of a key; a stand-in is wanted if none is given.
#[derive(Clone, Copy)]
struct Value<'r, 't> {
    table: Table<'r, 't>,
    key: &'static str,
    given: Option<&'t Spanned<DeValue<'t>>>,
    /// The name of the enum that has the value's struct as content of a variant.
    of: &'static str,
}

impl<'t> Value<'_, 't> {
    /// Returns the given value, and the section that has it.
    fn parts(&self) -> Option<(&'t Spanned<DeValue<'t>>, &Section<'t>)> {
        Some((self.given?, self.table.section?))
    }

    /// Replaces `{id}` in a text.
    fn expanded<'s>(&self, text: &'s str) -> Result<Cow<'s, str>, StopReason> {
        let Some(id) = self.table.section.and_then(|section| section.id) else { return Ok(text.into()) };
        let remedy = "write `{id}`, or a sum such as `{7100+id}`";
        template::expand(text, id).map(Cow::Owned).map_err(|error| de::Error::custom(wrong(error, remedy)))
    }

    /// Returns the word that the value is.
    fn word(&self, words: &'static [&'static str]) -> Result<&'static str, StopReason> {
        let Some((value, section)) = self.parts() else { return Ok(words[0]) };
        let Some(text) = value.get_ref().as_str() else {
            return Err(StopReason::wrong_type("text", format!("write {}", one_of(words))));
        };
        let text = self.expanded(text)?;
        words.iter().copied().find(|word| *word == text).ok_or_else(|| {
            let replaced = remedies::replaced(&section.key_path(self.key), &text);
            de::Error::custom(replaced.unwrap_or_else(|| unknown_word(&text, words)))
        })
    }

    /// Returns the section that the value is.
    fn section(&self) -> Result<Option<Section<'t>>, StopReason> {
        let Some((value, above)) = self.parts() else { return Ok(None) };
        let entries = value.get_ref().as_table();
        let kind = Some(value).filter(|value| self.of == BY_KIND && value.get_ref().is_str());
        if entries.is_none() && kind.is_none() {
            let remedy = remedies::table(&above.key_path(self.key), self.key);
            return Err(StopReason::wrong_type("a table", remedy));
        }
        let mut section = Section::new(above.notes, &above.key_path(self.key), value.span(), entries);
        section.id = above.id;
        section.only = kind.map(|value| ("kind", value));
        if [BY_KIND, BY_KIND_OF_TABLE].contains(&self.of) {
            section.apart = &["kind"];
        }
        Ok(Some(section))
    }

    /// Returns the kind of a table; `None` if there is no good one, and a stand-in is wanted.
    fn kind(&self, kinds: &'static [&'static str]) -> Result<Option<&'static str>, StopReason> {
        let progress = self.table.progress;
        let Some(section) = self.section()? else { return Ok(None) };
        let path = section.key_path("kind");
        // A kind that was refused before is not refused again; a stand-in takes its place.
        if progress.wrong.borrow().contains(&path) || progress.lacking.borrow().contains(&path) {
            progress.lacking.borrow_mut().insert(path);
            return Ok(None);
        }
        let Some(given) = section.value("kind") else {
            progress.lack(&section, "kind");
            return Err(StopReason::Noted);
        };
        section.keep_place("kind", given.span());
        let table = Table { section: Some(&section), progress };
        let kind = Value { table, key: "kind", given: Some(given), of: "" }.word(kinds);
        kind.map(Some).map_err(|stop| progress.refuse(&section, "kind", given, stop))
    }
}

/// A variant of an enum: its word, and the value with its content.
struct Variant<'r, 't> {
    word: &'static str,
    content: Value<'r, 't>,
}

impl<'de, 'r, 't> EnumAccess<'de> for Variant<'r, 't> {
    type Error = StopReason;
    type Variant = Value<'r, 't>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Value<'r, 't>), StopReason> {
        let word: StrDeserializer<'_, StopReason> = self.word.into_deserializer();
        Ok((seed.deserialize(word)?, self.content))
    }
}

impl<'de> VariantAccess<'de> for Value<'_, '_> {
    type Error = StopReason;

    fn unit_variant(self) -> Result<(), StopReason> {
        self.deserialize_struct("", &[], de::IgnoredAny).map(drop)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, StopReason> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, StopReason> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StopReason> {
        self.deserialize_struct("", fields, visitor)
    }
}

impl<'de> Deserializer<'de> for Value<'_, '_> {
    type Error = StopReason;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        let Some(given) = self.given else { return visitor.visit_unit() };
        match given.get_ref() {
            DeValue::String(text) => visitor.visit_str(&self.expanded(text)?),
            DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => {
                    let number = i64::from_str_radix(number.as_str(), number.radix());
                    visitor.visit_i64(number.unwrap_or(i64::MIN))
                }
            },
            DeValue::Float(number) => visitor.visit_f64(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                Err(de::Error::invalid_type(Unexpected::Map, &visitor))
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        let Some(given) = self.given else { return visitor.visit_bool(false) };
        let wrong = || StopReason::wrong_type("true or false", format!("write {KEY} = true"));
        visitor.visit_bool(given.get_ref().as_bool().ok_or_else(wrong)?)
    }

    /// Reads a whole number; in an entry with ids, a text with `{id}` is accepted too.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        let text = self.parts().filter(|(_, section)| section.id.is_some());
        match text.and_then(|(value, _)| value.get_ref().as_str()) {
            Some(text) => {
                let text = self.expanded(text)?;
                match text.parse() {
                    Ok(number) => visitor.visit_u64(number),
                    Err(_) => visitor.visit_i64(text.parse().unwrap_or(i64::MIN)),
                }
            }
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        let Some(given) = self.given else { return visitor.visit_str("") };
        let text = given.get_ref().as_str().ok_or_else(|| StopReason::wrong_text("text"))?;
        visitor.visit_str(&self.expanded(text)?)
    }

    /// Reads a list of texts.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        let items =
            self.given.map_or(Some(&[][..]), |given| given.get_ref().as_array().map(|items| &items[..]));
        let texts: Option<Vec<&str>> =
            items.and_then(|items| items.iter().map(|item| item.get_ref().as_str()).collect());
        let texts = texts.ok_or_else(|| StopReason::wrong_text("a list of texts"))?;
        let texts: Vec<String> = texts
            .into_iter()
            .map(|text| self.expanded(text).map(Cow::into_owned))
            .collect::<Result<_, _>>()?;
        visitor.visit_seq(SeqDeserializer::new(texts.into_iter()))
    }

    /// Leaves a value to be read apart.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StopReason> {
        if self.given.is_some() { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StopReason> {
        let section = self.section()?;
        Table { section: section.as_ref(), progress: self.table.progress }.visit(fields, visitor)
    }

    /// Chooses the variant by the word, or as the name of the enum tells.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StopReason> {
        let content = Value { of: name, ..self };
        match name {
            BY_KIND | BY_KIND_OF_TABLE => match content.kind(variants)? {
                Some(word) => visitor.visit_enum(Variant { word, content }),
                None => {
                    visitor.visit_enum(Variant { word: variants[0], content: Value { given: None, ..self } })
                }
            },
            BY_TYPE => {
                let is_table = self.given.is_some_and(|given| given.get_ref().is_table());
                visitor.visit_enum(Variant { word: variants[usize::from(is_table)], content })
            }
            _ => {
                let word: StrDeserializer<'_, StopReason> = self.word(variants)?.into_deserializer();
                visitor.visit_enum(word)
            }
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct map identifier
    }
}
