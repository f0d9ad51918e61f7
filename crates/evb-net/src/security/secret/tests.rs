use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    process::Command,
    time::{Duration, Instant},
};

use super::*;

fn file(mode: u32) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    fs::write(&path, "words").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (directory, path)
}

#[test]
fn others_and_writers_are_kept_out_whatever_the_group() {
    for mode in [0o604, 0o620, 0o602, 0o644, 0o660, 0o601, 0o610, 0o650, 0o444] {
        let (_directory, path) = file(mode);
        let words = open_secret(&path).unwrap_err().to_string();
        assert!(words.contains(&format!("chmod 600 {}", path.display())), "{words}");
        assert!(words.contains(&format!("{mode:04o}")), "{words}");
    }
    for mode in [0o600, 0o400] {
        let (_directory, path) = file(mode);
        assert!(open_secret(&path).is_ok());
    }
}

/// The modes that systemd's `LoadCredential` and Kubernetes' `fsGroup` make.
#[test]
fn the_group_may_read_if_it_is_roots_or_our_own_or_nobody_can_write() {
    let (_directory, path) = file(0o440);
    assert!(open_secret(&path).is_ok(), "our own group");
    // Only root may give a file to another group.
    if chown(&path, None, Some(12_345)).is_err() {
        return;
    }
    assert!(matches!(open_secret(&path), Err(SecretError::Mode { mode: 0o440, .. })));
    let facts = fs::metadata(&path).unwrap();
    assert!(check(&path, &facts, || true).is_ok(), "on a read-only file system");
    chown(&path, None, Some(0)).unwrap();
    assert!(open_secret(&path).is_ok(), "root's group");
    chown(&path, Some(65_534), None).unwrap();
    let words = open_secret(&path).unwrap_err().to_string();
    assert!(words.contains("belongs to user 65534") && words.contains("chown"), "{words}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let began = Instant::now();
    for path in [&pipe, directory.path(), Path::new("/dev/null")] {
        let words = open_secret(path).unwrap_err().to_string();
        assert!(words.contains("not a regular file"), "{words}");
    }
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(open_secret(&directory.path().join("none")).unwrap_err().to_string().contains("cannot read"));
}
