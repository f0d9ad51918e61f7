use super::programs::newest;

#[test]
fn the_newest_symbol_version_is_compared_as_numbers() {
    let said = "\
        0000 DF *UND* 0000 (GLIBC_2.9) openat\n\
        0000 DF *UND* 0000 (GLIBC_2.28) fcntl64\n\
        0000 DF *UND* 0000 (GLIBC_2.2.5) hypot\n\
        0000 DF *UND* 0000 (GCC_4.2.0) _Unwind_Find\n";
    assert_eq!(newest(said), Some(28));
    assert_eq!(newest("no dynamic symbols"), None);
}
