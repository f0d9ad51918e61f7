//! The rate of `evb-bench stream` over the size of the records, on links of known rate: it rises
//! while system calls limit it, and then stays at the rate of the link.

use anyhow::{Context as _, Result};
use lab_base::{
    bench::Bench,
    report::{Bound, Report},
    system::{Transport, port_capacity},
};
use serde_json::{Value, json};

use super::{MBIT, hosts, measured};

/// Sizes of the records in bytes.
const SIZES: &str = "16 B,32 B,64 B,128 B,256 B,512 B,1 KiB,2 KiB,4 KiB,8 KiB,16 KiB,32 KiB,64 KiB";
/// Size of record from which the link limits the rate, in bytes.
const LARGE: u64 = 1024;
/// Size of record at which system calls limit the rate of a fast link, in bytes.
const SMALL: u64 = 64;
/// Least rate of large records, as a part of what the link carries.
const PLATEAU: f64 = 0.97;
/// Largest rate of small records on the fast link, as a part of what the link carries.
const RISE: f64 = 0.5;

pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("stream-line");
    let mut points = Vec::new();
    println!("{:>12} {:>12} {:>16} {:>14}", "link, Mbit/s", "record, B", "Mbit/s", "converged");
    for mbit in MBIT.into_iter().filter(|mbit| bench.wants(&format!("{mbit} Mbit/s"))) {
        let network = hosts(mbit)?;
        let picture = bench.out.join(format!("stream-line-{mbit}.svg"));
        let seconds = (bench.seconds / 10.0).to_string();
        let options = ["--records", SIZES, "--seconds", &seconds, "--warm-up", "200 ms", "--svg"];
        let picture = picture.to_str().context("the path of the results is no text")?;
        let said = measured(bench, &network, Transport::Tcp, &[&options[..], &[picture]].concat())?;
        let line = port_capacity(network.shape(), Transport::Tcp, 64_000);
        let found = said["points"].as_array().context("evbd states no points")?;
        let (count, least) = (found.len() as f64, SIZES.split(',').count() as f64);
        report.holds(&format!("{mbit} Mbit/s: points measured"), count, Bound::AtLeast(least));
        for point in found {
            points.push(judged(point, mbit, line, &mut report)?);
        }
    }
    report.attach("points", Value::Array(points));
    Ok(report)
}

/// Prints and judges a point, and returns it with the rate of its link.
fn judged(point: &Value, mbit: u64, line: f64, report: &mut Report) -> Result<Value> {
    let record = point["record_bytes"].as_u64().context("a point without size")?;
    let rate = &point["rate_bits_per_s"];
    let mean = rate["mean"].as_f64().context("a point without rate")?;
    let width = rate["half_width"].as_f64().unwrap_or(f64::NAN);
    let text = format!("{:.1} ± {:.1}", mean / 1e6, width / 1e6);
    println!("{mbit:>12} {record:>12} {text:>16} {:>14}", rate["converged"]);
    let what = format!("{mbit} Mbit/s, {record} B: part of what the link carries");
    if record >= LARGE {
        report.noisy(&what, mean / line, Bound::AtLeast(PLATEAU));
    } else if record == SMALL && mbit == MBIT[1] {
        report.noisy(&what, mean / line, Bound::AtMost(RISE));
    }
    let mut point = point.clone();
    point["link_mbit"] = json!(mbit);
    Ok(point)
}
