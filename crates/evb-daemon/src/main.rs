//! evbd
fn main() {}
