use proptest::prelude::*;

use super::*;
use crate::time::Instant;

proptest! {
    #[test]
    fn the_indexes_are_those_of_a_look_at_every_seat(
        ids in proptest::collection::hash_set(0..300_u16, 1..60),
        changes in proptest::collection::vec((0..60_usize, 0..4_u8, any::<bool>()), 0..100),
    ) {
        let mut lookup = Lookup::default();
        let mut seats: Per<BuilderIndex, BuilderSeat> = core::iter::empty().collect();
        for id in ids.into_iter().map(BuilderId::new) {
            lookup.add(id, BuilderIndex::new(seats.len()));
            seats.push(BuilderSeat::new(id));
        }
        for (place, leaving, joins) in changes {
            let index = BuilderIndex::new(place % seats.len());
            let seat = &mut seats[index];
            seat.leaving = [Leaving::No, Leaving::Asked, Leaving::Finishing, Leaving::Gone][usize::from(leaving)];
            seat.joining = joins.then_some(Instant::ZERO);
            lookup.note(index, &seats[index]);
            prop_assert!(lookup.agrees(&seats));
        }
        for id in (0..300).map(BuilderId::new) {
            let found = seats.positions().find(|index| seats[*index].id == id);
            prop_assert_eq!(lookup.find(id), found);
        }
    }
}
