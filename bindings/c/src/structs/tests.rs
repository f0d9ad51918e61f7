use super::*;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    struct_size: usize,
    first: u64,
    second: u64,
}

// SAFETY: numbers may be zero, and the first field is the size.
unsafe impl Sized0 for Known {}

fn read_words(words: &[u64]) -> Result<Known, Failure> {
    // SAFETY: the tests state no larger size than the words have.
    unsafe { read("known", words.as_ptr().cast::<Known>()) }
}

#[test]
fn a_struct_of_an_older_header_has_defaults() {
    assert_eq!(read_words(&[16, 7]).unwrap(), Known { struct_size: 16, first: 7, second: 0 });
    assert_eq!(read_words(&[24, 7, 8]).unwrap(), Known { struct_size: 24, first: 7, second: 8 });
}

#[test]
fn a_struct_of_a_newer_header_must_not_use_new_fields() {
    assert!(read_words(&[32, 7, 8, 0]).is_ok());
    let failure = read_words(&[32, 7, 8, 9]).unwrap_err();
    assert!(failure.reason.contains("does not have"), "{}", failure.reason);
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    for size in [0, 8, 4097, u64::MAX] {
        assert!(read_words(&[size, 0, 0]).is_err(), "{size}");
    }
    // SAFETY: NULL is allowed.
    assert!(unsafe { read::<Known>("known", ptr::null()) }.is_err());
}

#[test]
fn an_answer_fills_only_the_fields_that_the_caller_has() {
    let mut words: [u64; 3] = [16, 0, 99];
    let answer = Known { struct_size: 24, first: 5, second: 6 };
    // SAFETY: the stated size is within the words.
    unsafe { write("known", words.as_mut_ptr().cast::<Known>(), &answer) }.unwrap();
    assert_eq!(words, [16, 5, 99]);
}
