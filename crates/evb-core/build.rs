//! Compiles the control messages and the journal's entries with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let all = protox::compile(["control.proto", "journal.proto"], ["proto"])?;
    let mut control = all.clone();
    control.file.retain(|file| file.package() == "evb.control.v1");
    // The journal's entries speak of control messages by their place in the crate. This run makes those as well, for
    // nothing, so it comes first.
    prost_build::Config::new().extern_path(".evb.control.v1", "crate::wire::control").compile_fds(all)?;
    // Histograms in a report that goes by value.
    let large = ["SourceReport", "BuilderReport"].map(|report| format!(".evb.control.v1.{report}.stages"));
    let mut config = prost_build::Config::new();
    large.iter().for_each(|field| _ = config.boxed(field));
    config.compile_fds(control)?;
    Ok(())
}
