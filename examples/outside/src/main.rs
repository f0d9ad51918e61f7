//! Two programs in one: a run over UDP with a key, traffic classes, paces, a sink and a filter of
//! its own, and an async and a blocking source; then two runs under run control.
//!
//!     cargo run --manifest-path examples/outside/Cargo.toml

mod protected;
mod runs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let built = evb::block_on(protected::run())??;
    println!("over UDP with a key: {built}");
    for verdict in evb::block_on(runs::lead_two())?? {
        println!("under run control: {verdict}");
    }
    Ok(())
}
