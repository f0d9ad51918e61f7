//! Valid examples to begin with, made by code so that they stay valid.

use std::{fs, path::Path};

use evb_core::fragment::Checksum;

/// Writes a target's seeds into its corpus, before the fuzzer reads it. Existing files stay as they
/// are.
pub fn plant(target: &str, seeds: impl IntoIterator<Item = Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    if fs::create_dir_all(&folder).is_err() {
        return;
    }
    for seed in seeds {
        let path = folder.join(format!("seed-{:016x}", Checksum::of(&seed).number()));
        if !path.exists() {
            // Without seeds the fuzzer begins with nothing, which is slower, but no reason to stop.
            let _ = fs::write(path, seed);
        }
    }
}
