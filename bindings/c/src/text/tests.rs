use super::*;

fn written_to<const N: usize>(text: &str) -> String {
    let mut array = [0x7f; N];
    // SAFETY: the pointer comes from a whole array.
    unsafe { write(&raw mut array, text) };
    let bytes = array.map(|byte| byte as u8);
    assert!(bytes.contains(&0), "the text ends inside the array");
    written(&bytes)
}

#[test]
fn a_long_text_is_cut_off_between_characters() {
    assert_eq!(written_to::<8>("seven b"), "seven b");
    assert_eq!(written_to::<8>("eight by"), "eigh…");
    assert_eq!(written_to::<8>("äöüäöü"), "äö…");
    assert_eq!(written_to::<1>("text"), "");
    assert_eq!(written_to::<3>("äö"), "ä");
}

#[test]
fn a_wrong_text_is_refused() {
    let endless = vec![b'a' as c_char; LONGEST + 1];
    let texts = [c"\xff".as_ptr(), endless.as_ptr(), c"".as_ptr(), std::ptr::null()];
    for (text, says) in texts.into_iter().zip(["UTF-8", "more than", "empty", "NULL"]) {
        // SAFETY: the pointer is NULL, or its bytes are valid up to a NUL or the longest text.
        let failure = unsafe { required("text", text) }.unwrap_err();
        assert!(failure.reason.contains(says), "{}", failure.reason);
    }
}
