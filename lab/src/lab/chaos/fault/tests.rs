use std::collections::BTreeSet;

use super::*;

const SHAPE: Shape = Shape { sources: 4, builders: 3, rate: 1, port_buffer: 1, ..Shape::PLAIN };

#[test]
fn a_seed_says_it_all() {
    assert_eq!(schedule(7, 50, SHAPE, true, true), schedule(7, 50, SHAPE, true, true));
    assert_ne!(schedule(7, 50, SHAPE, true, true), schedule(8, 50, SHAPE, true, true));
}

#[test]
fn everything_happens_to_everybody() {
    let faults = schedule(1, 300, SHAPE, true, true);
    let what: BTreeSet<_> = faults.iter().map(|fault| (fault.kind, fault.host.as_bytes()[0])).collect();
    let everybody = [Kind::Kill, Kind::Freeze, Kind::Cut, Kind::LongCut];
    for (kind, role) in everybody.into_iter().flat_map(|kind| [(kind, b's'), (kind, b'b')]) {
        assert!(what.contains(&(kind, role)), "{kind:?}");
    }
    assert!(what.contains(&(Kind::Full, b'b')) && what.contains(&(Kind::Stuck, b'b')));
    assert!(faults.iter().any(|fault| fault.host == "sup" && fault.kind == Kind::Kill));
    assert_eq!(faults.iter().filter(|fault| fault.kind == Kind::LongCut).count(), 3);
    assert!(
        faults.iter().filter(|fault| fault.kind != Kind::LongCut).all(|fault| fault.lasts.as_secs() <= 5)
    );
}

#[test]
fn what_the_machine_cannot_do_is_not_drawn() {
    let faults = schedule(1, 300, SHAPE, false, false);
    assert!(faults.iter().all(|fault| !matches!(fault.kind, Kind::LongCut | Kind::Stuck)));
}
