//! The files that both readers list.

// The generators are those of the fuzz targets, whose package needs another compiler.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../fuzz/src/event_file/files.rs"]
pub(crate) mod generators;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use evb_core::{id::BuilderId, rng::Rng};

use self::generators::{HARMS, harm, random};

/// Number of files in a folder, each of another builder. The folder is listed as a run, too.
const TOGETHER: u64 = 5;

/// Makes files in folders, and returns the path of a file with the names of the folders.
pub(super) fn make(out: &Path, count: u64, seed: u64) -> Result<PathBuf> {
    let mut rng = Rng::new(seed);
    let (files, scratch) = (out.join("files"), out.join("scratch"));
    let mut names = String::new();
    let mut harms = [0_u64; HARMS.len()];
    for first in (0..count).step_by(TOGETHER as usize) {
        let folder = files.join(format!("{:05}", first / TOGETHER));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        names += &format!("{}\n", folder.display());
        // One damaged header prevents the merge of a folder, so every third folder has less damage.
        let is_mild = (first / TOGETHER).is_multiple_of(3);
        for place in 0..TOGETHER.min(count - first) {
            let builder = BuilderId::new(1 + place as u16);
            let mut bytes = random(&scratch, builder, &mut rng);
            let other = random(&scratch, builder, &mut rng);
            let kind = if is_mild && place > 0 { 0 } else { rng.below(HARMS.len() as u64) as usize };
            harms[kind] += 1;
            harm(kind, &mut bytes, &other, &mut rng);
            // The name of a file may contradict its header.
            let run = if rng.below(50) == 0 { 2 } else { 1 };
            fs::write(folder.join(format!("run{run:06}_b{:02}_0000.evb", builder.number())), bytes)?;
        }
    }
    let told: Vec<String> = HARMS.iter().zip(harms).map(|(name, count)| format!("{count} {name}")).collect();
    println!("{}", told.join(", "));
    let path = out.join("names");
    fs::write(&path, names)?;
    Ok(path)
}
