//! The choice of the path: once for each process, by the features of the processor.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm::Crc64Nvme, Digest};

use super::{INITIAL, Path};

static FASTEST: LazyLock<Path> = LazyLock::new(|| supported()[0].1);

/// Returns the state after `bytes`.
#[inline]
pub(crate) fn update(state: u64, bytes: &[u8]) -> u64 {
    FASTEST(state, bytes)
}

/// Returns all paths that this processor supports, each with its name, for tests and measurements.
/// The first is the fastest, which [`checksum`](crate::checksum) takes; the last is crc-fast.
pub fn supported() -> Vec<(&'static str, Path)> {
    #[cfg(target_arch = "x86_64")]
    let paths = [("avx512", crate::avx512::path()), ("pclmulqdq", crate::pclmulqdq::path())];
    #[cfg(not(target_arch = "x86_64"))]
    let paths: [(&'static str, Option<Path>); 0] = [];
    let paths = paths.into_iter().filter_map(|(name, path)| Some((name, path?)));
    paths.chain([("crc_fast", crc_fast as Path)]).collect()
}

/// Returns the state after `bytes`, computed by crc-fast.
fn crc_fast(state: u64, bytes: &[u8]) -> u64 {
    // Most checksums cover one slice, for which crc-fast needs no digest.
    if state == INITIAL {
        return !crc_fast::checksum(Crc64Nvme, bytes);
    }
    let mut digest = Digest::new_with_init_state(Crc64Nvme, state);
    digest.update(bytes);
    digest.get_state()
}
