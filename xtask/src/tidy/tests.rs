use super::*;

#[test]
fn this_repository_is_tidy() {
    let repo = Repo::load(&checkout::root()).unwrap();
    let found: Vec<String> = CHECKS
        .iter()
        .flat_map(|(name, check)| check(&repo).into_iter().map(move |f| format!("{name}: {f}")))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
