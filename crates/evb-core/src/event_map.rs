//! [`EventMap`]: a hash map by event id, with a hash that no random seed changes.

use core::hash::{BuildHasherDefault, Hasher};

use crate::id::EventId;

/// A map from event ids to values.
pub(crate) type EventMap<V> = hashbrown::HashMap<EventId, V, BuildHasherDefault<EventHasher>>;

/// The hash of an event id: a multiplication by 2⁶⁴/φ spreads consecutive ids evenly (Fibonacci
/// hashing: Knuth, TAOCP vol. 3, §6.4). The map takes the place from the low bits of the hash, so
/// the well-mixed high half of the product goes there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventHasher(u64);

impl Hasher for EventHasher {
    fn write_u64(&mut self, event: u64) {
        self.0 = event.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
