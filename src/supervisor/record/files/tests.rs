use evb_core::wire::control::FileReport;

use super::*;

fn told(closed: u64, names: &[&str]) -> FilesReport {
    let file = |name: &&str| FileReport { path: (*name).to_owned(), events: 1, ..FileReport::default() };
    FilesReport { closed, latest: names.iter().map(file).collect() }
}

#[test]
fn files_are_in_the_record_once_and_those_that_are_missing_are_counted() {
    let (mut record, mut counts) = (RunRecord::default(), FileCounts::default());
    let (left, right) = (BuilderId::new(1), BuilderId::new(2));
    counts.add(&mut record, right, told(1, &["/b"]));
    counts.add(&mut record, left, told(3, &["/b", "/c"]));
    let of = |record: &RunRecord| {
        let files: Vec<_> =
            record.files.iter().map(|file| format!("{}{}", file.builder, file.path)).collect();
        (files.join(" "), record.files_left_out)
    };
    assert_eq!(of(&record), ("1/b 1/c 2/b".to_owned(), 1));
    counts.add(&mut record, left, told(3, &["/b", "/c"]));
    assert_eq!(of(&record).1, 1, "told again");
    counts.add(&mut record, left, told(4, &["/a", "/b", "/c", "/d\n"]));
    assert_eq!(of(&record), ("1/a 1/b 1/c 1/d 2/b".to_owned(), 0), "the last report has them all");
    // Another process of the builder counts from the beginning, and so does another supervisor.
    counts.add(&mut record, left, told(1, &["/e"]));
    let mut counts = FileCounts::default();
    counts.add(&mut record, right, told(2, &["/c"]));
    counts.add(&mut record, left, told(2, &["/e", "/f"]));
    assert_eq!(of(&record), ("1/a 1/b 1/c 1/d 1/e 1/f 2/b 2/c".to_owned(), 0));
    for number in 1..=3000_u32 {
        counts.add(&mut record, BuilderId::new(3), told(number.into(), &[&format!("/{number}")]));
    }
    assert_eq!((record.files.len(), record.files_left_out), (2000, 3000 - 1992));
    counts.add(&mut record, BuilderId::new(4), told(u64::MAX, &[]));
    counts.add(&mut record, BuilderId::new(5), told(u64::MAX, &[]));
    assert_eq!(record.files_left_out, u64::MAX, "a number of a peer overflows nothing");
}
