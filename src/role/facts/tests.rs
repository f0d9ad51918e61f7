use super::*;

#[test]
fn a_process_uses_something() {
    let facts = of_process();
    assert!(facts.processor > Duration::ZERO && facts.memory > 100_000, "{facts:?}");
}
