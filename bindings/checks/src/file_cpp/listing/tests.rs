use super::*;

const LISTING: &str = "file a.evb
header run=1
heads
event id=1
events
event id=1
fragment source=1
finding kind=torn_tail offset=8
verify
| clean
";

#[test]
fn equal_listings_pass_and_others_name_the_first_difference() {
    assert!(compare(LISTING, LISTING).is_ok());
    let error = compare(LISTING, &LISTING.replace("source=1", "source=2")).unwrap_err().to_string();
    assert!(error.contains("file a.evb: line 7") && error.contains("source=2"), "{error}");
    let error = compare(LISTING, LISTING.trim_end().trim_end_matches("| clean")).unwrap_err().to_string();
    assert!(error.contains("nothing"), "{error}");
    assert!(compare(LISTING, &format!("{LISTING}more")).is_err());
}

#[test]
fn items_are_counted() {
    let counts = Counts::of(LISTING);
    assert_eq!(counts, Counts { files: 1, events: 1, torn_tails: 1, ..Counts::default() });
    assert!(!counts.has_all());
    let wrong =
        format!("{LISTING}| CRC error in a.evb at 8: the index does not match the records of the file\n");
    assert_eq!(Counts::of(&wrong), Counts { wrong_indexes: 1, ..counts });
}
