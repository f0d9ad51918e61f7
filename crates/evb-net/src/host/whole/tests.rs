use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_link_at_the_name_is_replaced_and_its_target_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, path) = (dir.path().join("secret"), dir.path().join("run1.json"));
    fs::write(&secret, "untouched").unwrap();
    symlink(&secret, &path).unwrap();
    // Somebody knows the temporary name too.
    symlink(&secret, path.with_added_extension(format!("{}.part", process::id()))).unwrap();
    write_whole(&path, b"summary").unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read_to_string(&path).unwrap(), "summary");
    assert_eq!(names(dir.path()), ["run1.json", "secret"]);
}

#[test]
fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let mut whole = WholeFile::create(&path).unwrap();
    whole.file().unwrap().write_all(b"new, but not").unwrap();
    drop(whole);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path()).len()), ("old", 1));
    write_whole(&path, b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn devices_and_pipes_stay_what_they_are() {
    write_whole(Path::new("/dev/null"), b"nothing").unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let dir = tempfile::tempdir().unwrap();
    let error = write_whole(&dir.path().join("absent/file"), b"").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
