use evb_core::{
    fragment::Checksum,
    id::{RunId, RunNumber},
    units::Bytes,
};

use super::*;

fn file(path: &str, size: u64) -> ClosedFile {
    let (run, run_id, size) = (RunNumber::new(1), RunId::UNKNOWN, Bytes::new(size));
    let checksum = Some(Checksum::of(b"a"));
    ClosedFile { run, run_id, path: path.into(), size, events: 1, first: None, last: None, checksum }
}

#[test]
fn reports_have_the_latest_files_and_the_number_of_all() {
    let mut files = ClosedFiles::default();
    assert_eq!(files.report(4), None);
    let long = format!("/{}end", "ä".repeat(600));
    (0..1499).for_each(|size| files.add(&file("/data/a.evb", size)));
    files.add(&file(&long, 1499));
    let (few, most) = (files.report(4).unwrap(), files.report(MAX_FILES).unwrap());
    assert_eq!((few.closed, few.latest.len(), most.closed, most.latest.len()), (1500, 4, 1500, 1000));
    assert_eq!((few.latest[0].size, most.latest[0].size), (1496, 500));
    let path = &few.latest[3].path;
    assert!(path.len() <= MAX_FILE_PATH && path.len() > MAX_FILE_PATH - 4 && path.ends_with("end"), "{path}");
}
