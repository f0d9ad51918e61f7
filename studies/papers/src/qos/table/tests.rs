use super::{super::super::provisioned::Bucket, *};

fn row(system: &str, mechanism: Mechanism, asked: u64, got: &[f64]) -> Row {
    Row { system: system.to_owned(), mechanism, lane: 1, asked, got: got.to_vec() }
}

#[test]
fn a_row_has_the_median_of_its_runs() {
    let row = row("1x1", Mechanism::Kernel(Bucket::Tbf), 100_000_000, &[50e6, 101e6, 102e6]);
    assert!((row.off() - 0.01).abs() < 1e-9);
    let json = row.json();
    assert_eq!((json["means"].as_str(), json["got_bit_per_s"].as_f64()), (Some("tbf"), Some(101e6)));
}

#[test]
fn every_system_has_a_chart_with_all_means() {
    let systems = ["1x1", "1x3"];
    let rows: Vec<Row> = (systems.iter())
        .flat_map(|system| {
            Mechanism::with(&[Bucket::Htb, Bucket::Tbf]).into_iter().map(move |mechanism| (system, mechanism))
        })
        .map(|(system, mechanism)| row(system, mechanism, 100_000_000, &[100e6]))
        .collect();
    let svg = figure(&rows).svg().unwrap();
    for word in ["1x1", "1x3", "software", "htb", "tbf"] {
        assert!(svg.contains(word), "{word}");
    }
}
