use super::{
    table::{PATHS, Table},
    version,
};

fn report(counts: &[(&str, usize, u64)]) -> String {
    let case = |(name, index, count): &(&str, usize, u64)| {
        format!(
            r#"{{"function_name":"{name}","id":"of_{index}","profiles":[{{"data":{{"total":{{"metrics":{{"Ir":{{"values":{{"new":{count}}}}}}}}}}}}}]}}"#
        )
    };
    counts.iter().map(case).collect::<Vec<_>>().join("\n")
}

fn all(each: u64) -> Vec<(&'static str, usize, u64)> {
    let paths = PATHS.map(|(path, _)| path).into_iter().chain(["crc32c", "crc64"]);
    paths.flat_map(|path| (0..4).map(move |index| (path, index, each))).collect()
}

#[test]
fn counts_are_divided_by_whole_fragments() {
    let table = Table::read_benchmarks(&report(&all(512_000))).unwrap();
    let shown = table.to_json();
    // A benchmark with fragments of 1455 B processes 176 of them, which are 256 080 B, the smallest
    // number of whole fragments with at least 256 000 B.
    assert!(shown.contains("\"stream_send\": [2.0, 2.0, 1.999, 2.0]"), "{shown}");
    assert_eq!(Table::from_json(&shown).unwrap(), table);
}

#[test]
fn a_fifth_more_is_too_much() {
    let committed = Table::read_benchmarks(&report(&all(1_000_000))).unwrap();
    let mut counts = all(1_190_000);
    let counted = Table::read_benchmarks(&report(&counts)).unwrap();
    assert!(counted.worse_than(&committed).is_empty());
    counts[5].2 = 1_210_000;
    let worse = Table::read_benchmarks(&report(&counts)).unwrap().worse_than(&committed);
    assert!(matches!(&worse[..], [one] if one.contains("datagrams_receive, 8000 B")), "{worse:?}");
    assert_eq!(
        counted.worse_than(&Table::default()).len(),
        4 * (PATHS.len() + 2),
        "what is not committed is not passed over"
    );
}

#[test]
fn a_benchmark_that_stops_in_the_middle_is_no_result() {
    let counts = all(1000);
    assert!(Table::read_benchmarks(&report(&counts[..15])).is_err());
    assert!(Table::read_benchmarks("").is_err());
}

#[test]
fn the_locked_version_is_found() {
    let lock =
        "[[package]]\nname = 'gun'\nversion = '1.0.0'\n[[package]]\nname = 'gungraun'\nversion = '0.20.0'\n";
    assert_eq!(version(&lock.parse().unwrap(), "gungraun").as_deref(), Some("0.20.0"));
    assert_eq!(version(&lock.parse().unwrap(), "other"), None);
}
