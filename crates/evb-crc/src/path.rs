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
    let mut paths: Vec<(&'static str, Path)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        use crate::{avx512, pclmulqdq};
        paths.extend(avx512::path().map(|path| ("avx512", path)));
        paths.extend(pclmulqdq::path().map(|path| ("pclmulqdq", path)));
    }
    paths.push(("crc_fast", crc_fast));
    paths
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
