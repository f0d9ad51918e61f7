use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    check(&Repo::of(files)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_type_that_is_scattered_is_found() {
    let part =
        |name: &str| (format!("crates/evb-core/src/a/{name}.rs"), format!("impl A {{ fn {name}() {{}} }}"));
    let parts: Vec<(String, String)> = ["b", "c", "d"].map(part).into();
    let mut files: Vec<(&str, &str)> =
        parts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("crates/evb-core/src/a.rs", "pub struct A;"));
    assert!(found(&files).is_empty(), "three files are allowed");
    files.push(("crates/evb-core/src/a/e.rs", "impl<T> A { fn e() {} }"));
    let found = found(&files);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("crates/evb-core/src/a.rs") && found[0].contains("4 files"), "{found:?}");
}

#[test]
fn types_of_one_name_are_told_apart() {
    let files = [
        ("src/source/driver.rs", "struct Driver; impl Driver {}"),
        ("src/source/driver/more.rs", "impl Driver {}"),
        ("src/builder/driver.rs", "struct Driver; impl Driver {}"),
        ("src/builder/driver/more.rs", "impl Driver {}"),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn traits_and_tests_do_not_count() {
    let files = [
        ("src/a.rs", "struct A; impl A {}"),
        ("src/b.rs", "impl Clone for A {}"),
        ("src/c.rs", "#[cfg(test)] impl A {}"),
        ("src/a/tests.rs", "impl A {}"),
        ("src/d.rs", "impl Default for A {}"),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn a_type_that_does_everything_is_found() {
    let text = format!("struct A;\nimpl A {{\n{}}}\n", "    fn f() {}\n".repeat(LINES));
    let found = found(&[("src/a.rs", &text)]);
    assert!(found.len() == 1 && found[0].contains("702 lines"), "{found:?}");
}
