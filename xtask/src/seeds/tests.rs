use super::*;

/// A patch that no longer applies would leave a check of the simulator out without a word.
#[test]
fn every_patch_still_applies() {
    let Some(()) = evb_needs::granted(evb_needs::programs(&["git"])) else { return };
    let root = checkout::root();
    let fixes = fixes(&root).unwrap();
    assert!(fixes.len() >= 12, "{fixes:?}");
    for fix in fixes {
        apply(&root, &fix, &["--check"]).unwrap();
    }
}
