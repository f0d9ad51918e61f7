use super::*;

#[test]
fn dates_are_those_of_the_gregorian_calendar() {
    let days = [
        (0, "1970-01-01T00:00:00"),
        (951_782_399, "2000-02-28T23:59:59"),
        (951_782_400, "2000-02-29T00:00:00"),
        (951_868_800, "2000-03-01T00:00:00"),
        (1_709_164_800, "2024-02-29T00:00:00"),
        (1_767_225_599, "2025-12-31T23:59:59"),
        (4_107_542_400, "2100-03-01T00:00:00"), // 2100 has no leap day
        (18_446_744_073, "2554-07-21T23:34:33"),
    ];
    for (seconds, text) in days {
        let shown = Utc::from_nanos(seconds * 1_000_000_000 + 5).to_string();
        assert_eq!(shown, format!("{text}.000000005Z"));
    }
}

#[test]
fn times_have_as_many_decimals_as_asked_for() {
    let time = Utc::from_nanos(1_763_000_000_012_345_678);
    let shown = [0, 1, 2, 6, 9, 20].map(|precision| format!("{time:.precision$}")[17..].to_owned());
    assert_eq!(shown, ["20Z", "20.0Z", "20.01Z", "20.012345Z", "20.012345678Z", "20.012345678Z"]);
}

#[test]
fn an_unknown_time_is_null_in_json() {
    let times = [Utc::UNKNOWN, Utc::from_nanos(1)];
    assert_eq!(serde_json::to_string(&times).unwrap(), r#"[null,"1970-01-01T00:00:00.000000001Z"]"#);
}
