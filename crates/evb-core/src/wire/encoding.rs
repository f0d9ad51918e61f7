//! Protobuf encoding of messages; no other module depends on the Protobuf library. `proto/`
//! contains the specification. The macros below declare a message as a plain structure with the
//! field numbers of the specification, and `encoding/tests.rs` checks that both agree.

use bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};

pub use prost::DecodeError;

use crate::id::RunId;

/// Length of a run id in bytes.
const RUN_ID: usize = 16;

/// A message that can be encoded as bytes and decoded.
pub trait Encoding: Sized {
    /// Returns the length of the encoded message.
    fn encoded_len(&self) -> usize;

    /// Appends the encoded message.
    fn encode(&self, into: &mut impl BufMut);

    /// Decodes a message that occupies all of `bytes`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not such a message.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Appends the length of the encoded message and the message, as on a connection
    /// (docs/reference/protocol.md CTRL-1).
    fn encode_framed(&self, into: &mut impl BufMut) {
        into.put_u32_le(self.encoded_len() as u32);
        self.encode(into);
    }

    /// Returns the encoded message.
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        self.encode(&mut bytes);
        bytes
    }
}

impl<M: prost::Message + Default> Encoding for M {
    fn encoded_len(&self) -> usize {
        prost::Message::encoded_len(self)
    }

    fn encode(&self, into: &mut impl BufMut) {
        self.encode_raw(into);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        prost::Message::decode(bytes)
    }
}

/// Encoding of a message's field, implemented for each type of field.
pub(super) trait Field {
    /// Returns true if the field has its default value, which is not encoded.
    fn is_absent(&self) -> bool;

    fn put(&self, number: u32, into: &mut impl BufMut);

    fn length(&self, number: u32) -> usize;

    /// Returns true if a field with `number` on the wire is this field, whose own number is `own`.
    fn takes(own: u32, number: u32) -> bool {
        own == number
    }

    fn merge(
        &mut self,
        number: u32,
        form: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError>;
}

/// A message that can be a field of another message.
pub(super) trait SubMessage: prost::Message + Default {}

impl<P: SubMessage> SubMessage for Box<P> {}

/// Implements those functions of [`Field`] that `prost::encoding` provides.
macro_rules! coded {
    ($codec:ident: $put:ident, $length:ident, $merge:ident) => {
        fn put(&self, number: u32, into: &mut impl BufMut) {
            encoding::$codec::$put(number, self, into);
        }

        fn length(&self, number: u32) -> usize {
            encoding::$codec::$length(number, self)
        }

        fn merge(
            &mut self,
            _: u32,
            form: WireType,
            from: &mut impl Buf,
            context: DecodeContext,
        ) -> Result<(), DecodeError> {
            encoding::$codec::$merge(form, self, from, context)
        }
    };
}

macro_rules! plain {
    ($($type:ty: $codec:ident),*) => {$(
        impl Field for $type {
            fn is_absent(&self) -> bool {
                *self == Self::default()
            }

            coded!($codec: encode, encoded_len, merge);
        }
    )*};
}

plain!(u32: uint32, u64: uint64, bool: bool, f64: double, String: string);

macro_rules! packed {
    ($($type:ty: $codec:ident),*) => {$(
        impl Field for Vec<$type> {
            fn is_absent(&self) -> bool {
                self.is_empty()
            }

            coded!($codec: encode_packed, encoded_len_packed, merge_repeated);
        }
    )*};
}

packed!(u32: uint32, u64: uint64);

/// The 16 bytes of the id; not encoded if the id is not known.
impl Field for RunId {
    fn is_absent(&self) -> bool {
        !self.is_known()
    }

    fn put(&self, number: u32, into: &mut impl BufMut) {
        encoding::encode_key(number, WireType::LengthDelimited, into);
        encoding::encode_varint(RUN_ID as u64, into);
        into.put_slice(&self.to_bytes());
    }

    fn length(&self, number: u32) -> usize {
        encoding::key_len(number) + encoding::encoded_len_varint(RUN_ID as u64) + RUN_ID
    }

    /// Decodes a run id, whose field has exactly 16 bytes.
    fn merge(
        &mut self,
        _: u32,
        form: WireType,
        from: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::check_wire_type(WireType::LengthDelimited, form)?;
        if encoding::decode_varint(from)? != RUN_ID as u64 || from.remaining() < RUN_ID {
            #[expect(deprecated, reason = "the library has no other constructor")]
            return Err(DecodeError::new("a run id has 16 bytes"));
        }
        let mut bytes = [0; RUN_ID];
        from.copy_to_slice(&mut bytes);
        *self = Self::from_bytes(bytes);
        Ok(())
    }
}

impl<P: SubMessage> Field for Vec<P> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    coded!(message: encode_repeated, encoded_len_repeated, merge_repeated);
}

impl<P: SubMessage> Field for P {
    fn is_absent(&self) -> bool {
        false
    }

    coded!(message: encode, encoded_len, merge);
}

impl<P: SubMessage> Field for Option<P> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn put(&self, number: u32, into: &mut impl BufMut) {
        self.iter().for_each(|part| part.put(number, into));
    }

    fn length(&self, number: u32) -> usize {
        self.as_ref().map_or(0, |part| part.length(number))
    }

    fn merge(
        &mut self,
        number: u32,
        form: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        Field::merge(self.get_or_insert_default(), number, form, from, context)
    }
}

/// Declares structures that are messages: each field with its number, in the order in which the
/// fields are encoded. A field with an `Option` of a choice has no number of its own, and is
/// declared with 0. The leading attribute applies to all structures.
macro_rules! messages {
    ($all:meta; $($(#[$attribute:meta])* pub struct $name:ident { $($field:ident: $type:ty = $number:literal),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[$all]
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $name { $(pub $field: $type),* }

            impl $crate::wire::encoding::SubMessage for $name {}

            #[allow(unused_variables)]
            impl prost::Message for $name {
                fn encode_raw(&self, into: &mut impl bytes::BufMut) {
                    $(if !$crate::wire::encoding::Field::is_absent(&self.$field) {
                        $crate::wire::encoding::Field::put(&self.$field, $number, into);
                    })*
                }

                /// Reads a field, and adds it to the value that was read so far. Unknown fields are
                /// skipped.
                fn merge_field(
                    &mut self,
                    number: u32,
                    form: prost::encoding::WireType,
                    from: &mut impl bytes::Buf,
                    context: prost::encoding::DecodeContext,
                ) -> Result<(), prost::DecodeError> {
                    $(if <$type as $crate::wire::encoding::Field>::takes($number, number) {
                        let merged = $crate::wire::encoding::Field::merge(&mut self.$field, number, form, from, context);
                        return merged.map_err(|mut error| {
                            error.push(stringify!($name), stringify!($field));
                            error
                        });
                    })*
                    prost::encoding::skip_field(form, number, from, context)
                }

                fn encoded_len(&self) -> usize {
                    0 $(+ if $crate::wire::encoding::Field::is_absent(&self.$field) { 0 } else { $crate::wire::encoding::Field::length(&self.$field, $number) })*
                }

                fn clear(&mut self) {
                    *self = Self::default();
                }
            }
        )*

        #[cfg(test)]
        pub(crate) const MESSAGES: &[$crate::wire::encoding::tests::Declared] =
            &[$((stringify!($name), &[$((stringify!($field), stringify!($type), $number)),*])),*];
    };
}

/// Declares enumerations for `oneof` fields: each variant is one possible field of the message,
/// with its number.
macro_rules! choices {
    ($all:meta; $($(#[$attribute:meta])* pub enum $name:ident { $($variant:ident($type:ty) = $number:literal),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[$all]
            #[derive(Clone, Debug, PartialEq)]
            pub enum $name { $($variant($type)),* }

            impl $crate::wire::encoding::Field for Option<$name> {
                fn is_absent(&self) -> bool {
                    self.is_none()
                }

                fn put(&self, _: u32, into: &mut impl bytes::BufMut) {
                    match self {
                        None => {}
                        $(Some($name::$variant(part)) => $crate::wire::encoding::Field::put(part, $number, into),)*
                    }
                }

                fn length(&self, _: u32) -> usize {
                    match self {
                        None => 0,
                        $(Some($name::$variant(part)) => $crate::wire::encoding::Field::length(part, $number),)*
                    }
                }

                fn takes(_: u32, number: u32) -> bool {
                    [$($number),*].contains(&number)
                }

                /// Reads one of the variants. Unknown fields are skipped.
                fn merge(
                    &mut self,
                    number: u32,
                    form: prost::encoding::WireType,
                    from: &mut impl bytes::Buf,
                    context: prost::encoding::DecodeContext,
                ) -> Result<(), prost::DecodeError> {
                    match number {
                        $($number => {
                            // If the same variant occurs again, its fields are merged, as Protobuf
                            // requires.
                            let mut part = match self.take() {
                                Some($name::$variant(part)) => part,
                                _ => Default::default(),
                            };
                            $crate::wire::encoding::Field::merge(&mut part, number, form, from, context)?;
                            *self = Some($name::$variant(part));
                        })*
                        _ => prost::encoding::skip_field(form, number, from, context)?,
                    }
                    Ok(())
                }
            }
        )*

        #[cfg(test)]
        pub(crate) const CHOICES: &[$crate::wire::encoding::tests::Declared] =
            &[$((stringify!($name), &[$((stringify!($variant), stringify!($type), $number)),*])),*];
    };
}

/// Declares enumerations that are encoded as numbers. An unknown number is decoded as the first
/// variant.
macro_rules! enumerations {
    ($($(#[$attribute:meta])* pub enum $name:ident { $first:ident = 0, $($variant:ident = $number:literal),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub enum $name { #[default] $first = 0, $($variant = $number),* }

            impl $crate::wire::encoding::Field for $name {
                fn is_absent(&self) -> bool {
                    *self == Self::$first
                }

                fn put(&self, number: u32, into: &mut impl bytes::BufMut) {
                    prost::encoding::int32::encode(number, &(*self as i32), into);
                }

                fn length(&self, number: u32) -> usize {
                    prost::encoding::int32::encoded_len(number, &(*self as i32))
                }

                /// Reads the number of a variant. An unknown number stands for the first variant.
                fn merge(
                    &mut self,
                    _: u32,
                    form: prost::encoding::WireType,
                    from: &mut impl bytes::Buf,
                    context: prost::encoding::DecodeContext,
                ) -> Result<(), prost::DecodeError> {
                    let mut read = 0;
                    prost::encoding::int32::merge(form, &mut read, from, context)?;
                    *self = match read {
                        $($number => Self::$variant,)*
                        _ => Self::$first,
                    };
                    Ok(())
                }
            }
        )*

        #[cfg(test)]
        pub(crate) const ENUMERATIONS: &[$crate::wire::encoding::tests::Declared] =
            &[$((stringify!($name), &[(stringify!($first), "", 0), $((stringify!($variant), "", $number)),*])),*];
    };
}

pub(super) use {choices, enumerations, messages};

#[cfg(test)]
pub(super) mod tests;
