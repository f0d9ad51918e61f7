//! Compiles the control messages with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PROTO: &str = "proto/control.proto";
    println!("cargo:rerun-if-changed={PROTO}");
    let files = protox::compile([PROTO], ["proto"])?;
    prost_build::Config::new().compile_fds(files)?;
    Ok(())
}
