//! Writes seed corpora: valid examples of inputs, which code generates so that they stay valid when
//! a format changes.

use std::{fs, path::Path};

use evb_core::fragment::Checksum;

/// Writes the seeds of a fuzz target into its corpus folder, before the fuzzer reads it. Existing
/// files stay unchanged.
pub fn plant(target: &str, seeds: impl IntoIterator<Item = Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    if fs::create_dir_all(&folder).is_err() {
        return;
    }
    for seed in seeds {
        let path = folder.join(format!("seed-{:016x}", Checksum::of(&seed).number()));
        if !path.exists() {
            // An error is ignored, because without seeds the fuzzer is slower, but still works.
            let _ = fs::write(path, seed);
        }
    }
}
