use super::*;

#[derive(Debug)]
struct Apple;
struct Pear;

impl Named for Apple {
    const NAME: &'static str = "apple";
}

impl Named for Pear {
    const NAME: &'static str = "pear";
}

fn reason<T>(result: Result<T, Failure>) -> (evb_code, String) {
    result.map(|_| ()).map_err(|failure| (failure.code, failure.reason)).unwrap_err()
}

#[test]
fn a_handle_is_freed_once() {
    let handle: *mut u8 = insert(Apple);
    let used = get::<_, Apple>(handle).unwrap();
    free::<_, Apple>(handle).unwrap();
    assert!(matches!(*used, Apple), "a call on another thread goes on");
    let (code, words) = reason(free::<_, Apple>(handle));
    assert_eq!((code, words.contains("freed already")), (evb_code::EVB_HANDLE, true), "{words}");
}

#[test]
fn a_handle_of_another_kind_is_refused_and_stays() {
    let handle: *mut u8 = insert(Pear);
    let (code, words) = reason(free::<_, Apple>(handle));
    assert_eq!(code, evb_code::EVB_HANDLE);
    assert_eq!(words, "the handle for `apple` is a handle to a pear");
    free::<_, Pear>(handle).unwrap();
}

#[test]
fn a_pointer_that_is_no_handle_is_not_read() {
    free::<u8, Apple>(ptr::null()).unwrap();
    assert_eq!(reason(get::<u8, Apple>(ptr::null())).0, evb_code::EVB_INVALID);
    for number in [2, 0xdead_beef, usize::MAX] {
        let (code, words) = reason(get::<u8, Apple>(ptr::without_provenance(number)));
        assert_eq!(
            (code, words.contains("is not one that evb returned")),
            (evb_code::EVB_HANDLE, true),
            "{words}"
        );
    }
}
