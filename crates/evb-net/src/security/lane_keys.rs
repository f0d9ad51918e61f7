//! [`Keys`]: the keys of one lane.

use std::fmt;

use super::LaneKey;

/// Keys of a lane, one for each direction of the TCP stream and of the datagrams.
#[derive(Clone)]
pub struct Keys {
    /// Key of the parcels that this side sends.
    pub stream_out: LaneKey,
    /// Key of the parcels that the peer sends.
    pub stream_in: LaneKey,
    /// Key of the datagrams that this side sends.
    pub datagrams_out: LaneKey,
    /// Key of the datagrams that the peer sends.
    pub datagrams_in: LaneKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(…)")
    }
}
