use super::*;

fn found(text: &str) -> usize {
    check(&Repo::of(&[("src/a.rs", text)])).len()
}

#[test]
fn inline_tests_are_found() {
    assert_eq!(found("#[cfg(test)]\nmod tests { }"), 1);
    assert_eq!(found("mod tests { fn f() {} }"), 1);
    assert_eq!(found("#[cfg(all(test, unix))]\nmod deep { mod inner {} }"), 1);
}

#[test]
fn tests_beside_pass() {
    assert_eq!(found("#[cfg(test)]\nmod tests;\nmod inner { }"), 0);
}
