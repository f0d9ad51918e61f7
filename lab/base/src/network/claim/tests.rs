use super::*;

fn take(path: &Path) -> Found {
    Claim::take_at(path).unwrap()
}

#[test]
fn one_lab_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab");
    let Found::Free(first) = take(&path) else { panic!("nobody has been here") };
    assert!(matches!(take(&path), Found::Taken));
    first.give_up().unwrap();
    drop(first);
    assert!(matches!(take(&path), Found::Free(_)));
}

#[test]
fn what_a_killed_lab_has_left_is_known_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab");
    // Dropping the claim without `give_up` is like a killed process: the lock is released, and the
    // file remains.
    drop(take(&path));
    let Found::Left(second) = take(&path) else { panic!("the file is there and nobody holds it") };
    second.give_up().unwrap();
    drop(second);
    assert!(matches!(take(&path), Found::Free(_)));
}
