//! The schemas of the forms of values.

use std::{borrow::Cow, time::Duration};

use evb_core::units::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serializer, ser};

use crate::{
    builder::Consumer,
    clock::PartsPerMillion,
    control::Viewers,
    counter::{ANY, FirstValue},
    entries::IdList,
    fault::Slip,
    forms::{
        Address, As, DataRate, EventRate, FilePath, Form, Host, LocalAddress, Positive, Quantity, Whole,
        Word, Words, words,
    },
    frame::{BitRange, HexBytes},
    input::{End, MAX, Run, SenderAddress, Speed},
    name::Name,
    network::CongestionControl,
    shaping::Spin,
    tap::EventShare,
    trigger::Group,
};

/// A form that the schema can show.
trait Shown {
    fn schema() -> Schema;
}

/// Returns the schema of texts that match a pattern.
fn text(description: &str, example: &str, pattern: &str) -> Schema {
    let pattern = format!("^({pattern})$");
    json_schema!({ "type": "string", "description": description, "examples": [example], "pattern": pattern })
}

/// Returns the schema of a number with one of the units.
fn quantity<F: Form>(description: &str, units: &str) -> Schema {
    text(description, F::EXAMPLE, &format!("\\s*[0-9.+_-]+\\s*({units})\\s*"))
}

impl Shown for Quantity<Bytes> {
    fn schema() -> Schema {
        let description = "A size: a number with a unit, `B kB MB GB TB` (powers of 1000) or `KiB MiB GiB TiB` (powers of 1024).";
        quantity::<Self>(description, "B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB")
    }
}

impl Shown for Quantity<Duration> {
    fn schema() -> Schema {
        quantity::<Self>("A time: a number with a unit, `ns us ms s min h d`.", "ns|us|µs|ms|s|min|h|d")
    }
}

impl<T> Shown for Positive<T>
where
    Quantity<T>: Shown,
{
    fn schema() -> Schema {
        Quantity::<T>::schema()
    }
}

impl Shown for DataRate {
    fn schema() -> Schema {
        let description = "A data rate: a number with a unit, such as `Mbit/s` or `MB/s`.";
        let units = "bit/s|kbit/s|Mbit/s|Gbit/s|Tbit/s|B/s|kB/s|MB/s|GB/s|KiB/s|MiB/s|GiB/s";
        quantity::<Self>(description, units)
    }
}

impl Shown for EventRate {
    fn schema() -> Schema {
        quantity::<Self>("A frequency: a number with a unit, `mHz Hz kHz MHz GHz`.", "Hz|kHz|MHz|GHz|mHz")
    }
}

impl Shown for PartsPerMillion {
    fn schema() -> Schema {
        quantity::<Self>("A relative deviation in parts per million.", "ppm")
    }
}

impl Shown for Address {
    fn schema() -> Schema {
        let description =
            "An address as `host:port`; a host is a name, an IPv4 address or an IPv6 address in brackets.";
        text(description, Self::EXAMPLE, "(\\[[^\\[\\]]+\\]|[A-Za-z0-9._-]+):[0-9]+")
    }
}

impl Shown for Consumer {
    fn schema() -> Schema {
        let description = "An address as `host:port`, or the path of a Unix socket, which has a `/`.";
        text(description, Self::EXAMPLE, "(\\[[^\\[\\]]+\\]|[A-Za-z0-9._-]+):[0-9]+|.*/.*")
    }
}

impl Shown for Host {
    fn schema() -> Schema {
        let description = "A host name, an IPv4 address or an IPv6 address, without a port.";
        text(description, Self::EXAMPLE, "[A-Za-z0-9._-]+|.*:.*")
    }
}

impl Shown for LocalAddress {
    fn schema() -> Schema {
        let description = "An IPv4 or IPv6 address, without a port.";
        text(description, Self::EXAMPLE, "[0-9]{1,3}(\\.[0-9]{1,3}){3}|.*:.*")
    }
}

impl Shown for SenderAddress {
    fn schema() -> Schema {
        let description = "A host, or a host and a port.";
        text(description, Self::EXAMPLE, "[A-Za-z0-9._-]+(:[0-9]+)?|.*:.*")
    }
}

impl Shown for Group {
    fn schema() -> Schema {
        let pattern = "([0-9]{1,3}(\\.[0-9]{1,3}){3}|\\[[^\\[\\]]+\\]):[0-9]+";
        text("A multicast group as `address:port`.", Self::EXAMPLE, pattern)
    }
}

impl Shown for FilePath {
    fn schema() -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

impl Shown for CongestionControl {
    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,15}$" })
    }
}

impl Shown for IdList {
    fn schema() -> Schema {
        json_schema!({ "type": "string", "examples": ["1-22", "1-4, 7"], "pattern": "^[-+0-9,\\s]+$" })
    }
}

impl Shown for Name {
    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl Shown for Run {
    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl Shown for HexBytes {
    fn schema() -> Schema {
        text("Bytes in hexadecimal.", Self::EXAMPLE, "(0x)?([0-9a-fA-F]{2}[ _]*)+")
    }
}

impl Shown for BitRange {
    fn schema() -> Schema {
        text("A range of bits.", Self::EXAMPLE, "[0-9]{1,2}([-:][0-9]{1,2})?")
    }
}

impl Shown for End {
    fn schema() -> Schema {
        let description = "An IP address, a port, or both as `address:port`.";
        text(description, Self::EXAMPLE, "[0-9a-fA-F.:\\[\\]]+")
    }
}

impl Shown for Viewers {
    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl<T: Words> Shown for Word<T> {
    fn schema() -> Schema {
        json_schema!({ "enum": words::<T>() })
    }
}

impl<F: Form + Shown> JsonSchema for As<F> {
    fn schema_name() -> Cow<'static, str> {
        "text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        F::schema()
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Whole<LEAST, MOST> {
    fn schema_name() -> Cow<'static, str> {
        "number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "integer", "minimum": LEAST });
        if MOST < u64::MAX {
            schema.insert("maximum".to_owned(), MOST.into());
        }
        schema
    }
}

impl JsonSchema for Slip {
    fn schema_name() -> Cow<'static, str> {
        "slip".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": -16, "maximum": 16, "not": { "const": 0 } })
    }
}

impl JsonSchema for Spin {
    fn schema_name() -> Cow<'static, str> {
        "spin".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, "force"] })
    }
}

impl JsonSchema for Speed {
    fn schema_name() -> Cow<'static, str> {
        "speed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "enum": [MAX] }] })
    }
}

impl JsonSchema for EventShare {
    fn schema_name() -> Cow<'static, str> {
        "share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1 })
    }
}

impl JsonSchema for FirstValue {
    fn schema_name() -> Cow<'static, str> {
        "first value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "enum": [ANY] }] })
    }
}

/// schemars asks for defaults, which the descriptions have in words.
fn no_default<S: Serializer>() -> Result<S::Ok, S::Error> {
    Err(ser::Error::custom("defaults are described in words"))
}

impl<F: Form> As<F> {
    pub(crate) fn serialize<T, S: Serializer>(_value: &T, _serializer: S) -> Result<S::Ok, S::Error> {
        no_default::<S>()
    }
}

impl<const LEAST: u64, const MOST: u64> Whole<LEAST, MOST> {
    pub(crate) fn serialize<T, S: Serializer>(_value: &T, _serializer: S) -> Result<S::Ok, S::Error> {
        no_default::<S>()
    }
}
