use super::*;

#[test]
fn unsafe_outside_the_net_is_found() {
    let text = "fn f() {\n    unsafe { g() }\n}\nmacro_rules! m { () => { unsafe { g() } } }";
    assert_eq!(check(&Repo::of(&[("crates/evb-file/src/a.rs", text)])).len(), 2);
    assert_eq!(check(&Repo::of(&[("tests/a.rs", text)])).len(), 2);
    assert_eq!(check(&Repo::of(&[("crates/evb-net/src/a.rs", text)])).len(), 0);
    assert_eq!(check(&Repo::of(&[("bindings/c/src/a.rs", text)])).len(), 0);
    assert_eq!(check(&Repo::of(&[("crates/evb-crc/src/avx512.rs", text)])).len(), 0);
    assert_eq!(check(&Repo::of(&[("crates/evb-crc/src/lib.rs", text)])).len(), 2);
    assert_eq!(check(&Repo::of(&[("bindings/python/src/a.rs", text)])).len(), 2);
}

#[test]
fn the_word_is_not_the_deed() {
    let text = "#![deny(unsafe_code)]\n// unsafe\nconst S: &str = \"unsafe\";";
    assert_eq!(check(&Repo::of(&[("src/a.rs", text)])).len(), 0);
}
