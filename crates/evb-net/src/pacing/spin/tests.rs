use super::{TooFewCores, cores, spin_allowed};

#[test]
fn spinning_wants_four_cores_or_force() {
    assert_eq!(spin_allowed(false, 3), Err(TooFewCores { cores: 3 }));
    assert_eq!(spin_allowed(false, 4), Ok(()));
    assert_eq!(spin_allowed(true, 1), Ok(()));
    assert!(cores() >= 1);
    assert!(TooFewCores { cores: 2 }.to_string().contains("spin = \"force\""));
}
