#![allow(unsafe_code)] // there is no safe fork

use super::*;

#[test]
fn a_forked_child_knows_what_it_is() {
    assert!(!is_forked_child(), "the first look is that of the parent");
    // SAFETY: the child calls nothing but a load of an atomic number and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = if is_forked_child() { 7 } else { 1 };
        // SAFETY: it ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid during the call, and the child is this test's own.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7);
    assert!(!is_forked_child(), "the parent is unharmed");
    assert!(matches!(owner(), Owner::Wiped(_)) || !cfg!(target_os = "linux"));
}
