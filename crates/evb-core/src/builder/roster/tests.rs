use super::*;

#[test]
fn the_oldest_versions_are_forgotten() {
    let mut rosters = Rosters::new(2);
    let last = 1000;
    for version in 1..=last {
        rosters.publish(version, SourceSet::first(1 + version as usize % 2), SourceSet::default());
        assert!(rosters.versions.len() <= REMEMBERED);
    }
    let oldest = last + 1 - REMEMBERED as u32;
    for version in oldest..=last {
        let expected = rosters.expected(version).unwrap();
        assert_eq!(expected.sources, SourceSet::first(1 + version as usize % 2));
    }
    for unknown in [0, oldest - 1, last + 1, u32::MAX] {
        assert!(
            matches!(rosters.expected(unknown), Err(RosterError::UnknownVersion(told)) if told == unknown)
        );
    }
}
