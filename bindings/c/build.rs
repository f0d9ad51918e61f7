//! Names the shared library for the dynamic linker.

/// Version of the binary interface. A change that breaks programs built with an older header
/// increases this number.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libevb.so.{ABI}");
}
