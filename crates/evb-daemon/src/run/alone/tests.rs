use super::claim;

#[test]
fn one_process_at_a_time_has_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let first = claim(file.path()).expect("nobody has it");
    let refused = claim(file.path()).expect_err("taken").to_string();
    assert!(refused.contains("belongs to one host") && refused.contains("network addresses"), "{refused}");
    drop(first);
    claim(file.path()).expect("free again");
}

#[test]
fn what_is_no_file_is_left_alone() {
    for path in ["/dev/null", "/nowhere/at.all", "/tmp"] {
        claim(path.as_ref()).expect("nothing to claim");
        claim(path.as_ref()).expect("nothing to claim");
    }
}
