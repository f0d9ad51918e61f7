use std::collections::BTreeSet;

use super::{cores, ranges};

#[test]
fn sets_of_cores() {
    assert_eq!(ranges("0-3,8\n").unwrap(), BTreeSet::from([0, 1, 2, 3, 8]));
    assert_eq!(ranges("\t5").unwrap(), BTreeSet::from([5]));
    assert!(ranges("\n").unwrap().is_empty());
    for bad in ["3-1", "x", "0-99999999999", "1-"] {
        assert!(ranges(bad).is_err(), "{bad}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn we_run_on_a_core_that_runs() {
    let Some(()) = evb_needs::granted(evb_needs::sys()) else { return };
    let cores = cores();
    let (online, allowed) = (cores.online.unwrap(), cores.allowed.unwrap());
    assert!(!allowed.is_empty() && allowed.is_subset(&online), "{allowed:?} of {online:?}");
}
