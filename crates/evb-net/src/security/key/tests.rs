use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{KeyError, PresharedKey};

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn file(text: &str, mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (directory, path)
}

fn refusal(path: &Path) -> String {
    PresharedKey::read(path).unwrap_err().to_string()
}

#[test]
fn hex_and_base64_are_the_same_key() {
    let key: [u8; 32] = std::array::from_fn(|index| index as u8);
    for text in [HEX, &HEX.to_uppercase(), BASE64, BASE64.trim_end_matches('='), &format!("\n {HEX}\r\n")] {
        assert_eq!(PresharedKey::parse(text), Some(PresharedKey::new(key)), "{text}");
    }
    let zeros = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=";
    for text in ["", "key", &HEX[1..], &format!("{HEX}0"), &HEX.replace('a', "g"), &BASE64[1..], zeros] {
        assert_eq!(PresharedKey::parse(text), None, "{text}");
    }
    let words = format!("{:?}", PresharedKey::new(key));
    assert!(!words.contains("01"), "{words}");
}

#[test]
fn a_file_is_made_for_its_owner_alone_and_not_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let key = PresharedKey::generate().unwrap();
    key.write_new(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(PresharedKey::read(&path).unwrap(), key);
    let other = PresharedKey::generate().unwrap();
    assert_ne!(other, key);
    assert!(matches!(other.write_new(&path), Err(KeyError::Write { .. })));
    assert_eq!(PresharedKey::read(&path).unwrap(), key);
}

#[test]
fn what_is_no_key_is_refused_and_not_shown() {
    for text in ["", "secret words", &HEX[..62], &"0".repeat(64), &"ff".repeat(32)] {
        let (_directory, path) = file(text, 0o600);
        let words = refusal(&path);
        assert!(words.contains("evbd keygen"), "{words}");
        assert!(text.len() < 3 || !words.contains(text), "{words}");
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(refusal(directory.path()).contains("not a regular file"));
    assert!(refusal(&directory.path().join("none")).contains("cannot read"));
}

#[test]
fn the_bytes_of_a_key_are_overwritten_when_its_last_clone_is_dropped() {
    const fn is_overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
    let key = PresharedKey::new([7; 32]);
    let other = key.clone();
    assert!(std::sync::Arc::ptr_eq(&key.0, &other.0), "clones share the key's memory");
    is_overwritten(&*key.0);
}
