//! `tap` of a builder: events for onlookers while a run goes on.

use std::{fmt, path::PathBuf};

use evb_core::units::Rate;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{
    endpoint::{Endpoint, is_loopback, is_unspecified},
    forms::{Address, As, DataRate, KEY, Whole, wrong},
    section::Section,
};

/// Access to the events of a builder over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "table")]
pub struct TapEntry {
    /// The address at which clients get events. Each builder has another one. An address that is
    /// not on loopback needs a `key_file`.
    #[serde(with = "As::<Address>")]
    pub listen: Endpoint,
    /// The largest share of the events that a client can ask for, above 0 and at most 1.
    ///
    /// Default: 1
    #[serde(default)]
    pub sample: EventShare,
    /// The most bytes per second to all clients together.
    ///
    /// Default: no limit
    #[serde(default, with = "As::<DataRate>")]
    pub max_rate: Option<Rate>,
    /// The most clients at once, 1 to 1000.
    ///
    /// Default: 8
    #[serde(default = "usual_clients", with = "Whole::<1, 1000>")]
    pub clients: usize,
    /// A file with the token that every client must send: 16 to 512 characters on one line, in a
    /// file [as closed as a key file](../explanation/security.md#the-key). This token opens nothing
    /// but taps.
    ///
    /// Default: none
    pub key_file: Option<PathBuf>,
}

fn usual_clients() -> usize {
    8
}

/// A share of the events, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventShare(f64);

impl EventShare {
    /// Returns the share as a number.
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

impl Default for EventShare {
    /// Returns the share that has every event.
    fn default() -> Self {
        Self(1.0)
    }
}

const REMEDY: &str = "write a number above 0 and at most 1, without quotes, such as sample = 0.01";

impl<'de> Deserialize<'de> for EventShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShareVisitor)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = EventShare;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrong("a number", REMEDY))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<EventShare, E> {
        if number > 0.0 && number <= 1.0 {
            return Ok(EventShare(number));
        }
        Err(E::custom(wrong(format_args!("this is not a possible value of `{KEY}`"), REMEDY)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<EventShare, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<EventShare, E> {
        self.visit_f64(number as f64)
    }

    /// Returns a stand-in for a value that is wrong.
    fn visit_unit<E: de::Error>(self) -> Result<EventShare, E> {
        Ok(EventShare::default())
    }
}

/// Notes what is wrong with the tap of a builder.
pub(super) fn check(tap: &TapEntry, builder: &Section<'_>) {
    if tap.listen.port == 0 {
        let reason = "port 0 lets the system choose a port, and clients would not know which";
        builder.refuse("tap.listen", reason, "write a port from 1 to 65535, for example 7301");
    } else if is_unspecified(&tap.listen.host) {
        let reason = format!(
            "`evbd tap` learns this address from the supervisor, and cannot connect to `{}`",
            tap.listen.host
        );
        builder.refuse("tap.listen", reason, "name the address by which other machines reach this one");
    } else if !is_loopback(&tap.listen.host) && tap.key_file.is_none() {
        let reason = format!(
            "`{}` can be reached from other machines, and without a `key_file`, everybody there may read the events",
            tap.listen.host
        );
        let remedy = "use 127.0.0.1, or add key_file = \"PATH\" with a secret that only its owner can read";
        builder.refuse("tap.listen", reason, remedy);
    }
}
