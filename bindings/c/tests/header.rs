//! The header `include/evb.h` is the one that cbindgen generates from the sources.
//!
//! `EVB_BLESS=1 cargo test --test header` writes it.

use std::{env, error::Error, fs, path::Path};

/// Modules in the order in which the header describes them.
const MODULES: [&str; 12] = [
    "version",
    "error",
    "wait",
    "options",
    "payload",
    "readout",
    "event",
    "sink/callbacks",
    "sink",
    "outcome",
    "source",
    "builder",
];
/// Modules at the end of the header.
const LAST: [&str; 2] = ["local", "border"];

#[test]
fn the_header_describes_the_sources() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut header =
        cbindgen::Builder::new().with_config(cbindgen::Config::from_file(folder.join("cbindgen.toml"))?);
    for module in MODULES.into_iter().chain(LAST) {
        header = header.with_src(folder.join("src").join(module).with_extension("rs"));
    }
    let mut generated = Vec::new();
    header.generate()?.write(&mut generated);
    let generated = String::from_utf8(generated)?;
    let path = folder.join("include/evb.h");
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &generated)?;
    }
    let committed = fs::read_to_string(&path)?;
    assert!(committed == generated, "include/evb.h is not what cbindgen makes: EVB_BLESS=1 cargo test");
    Ok(())
}

#[test]
fn every_exported_function_is_in_the_header() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(folder.join("include/evb.h"))?;
    let mut count = 0;
    let mut folders = vec![folder.join("src")];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(inside)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            for line in fs::read_to_string(&path)?.lines() {
                let Some((_, after)) = line.split_once("extern \"C\" fn ") else { continue };
                let name = after.split('(').next().unwrap_or_default();
                assert!(
                    header.contains(&format!(" {name}(")) || header.contains(&format!("*{name}(")),
                    "{name}"
                );
                assert!(name.starts_with("evb_"), "{name}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count} functions");
    Ok(())
}
