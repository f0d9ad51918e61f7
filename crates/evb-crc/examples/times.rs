//! Nanoseconds of a checksum by each path that the processor supports, for inputs of many lengths:
//! `cargo run --release -p evb-crc --example times`.
//!
//! The paths take turns in short rounds, and each time is the least of all rounds, so that other
//! load on the machine disturbs little. Each call waits for the result of the last one. With
//! `--all`, each length from 0 to 16384 is measured, and the lengths are printed at which the
//! fastest path is slower than crc-fast, and last the length at which it gains least. With
//! `--pieces`, the input is added to a digest in pieces of 100 bytes.

use std::{env::args, hint::black_box, time::Instant};

use evb_crc::{Path, supported};

const LENGTHS: [usize; 18] =
    [0, 1, 8, 15, 16, 64, 100, 128, 255, 256, 512, 1024, 1455, 4096, 8192, 16384, 65536, 1 << 20];

/// Number of offsets from an aligned address, which the measurements use in turn.
const OFFSETS: usize = 64;

fn main() {
    let last = LENGTHS[LENGTHS.len() - 1];
    let bytes: Vec<u8> =
        (0..(last + OFFSETS) as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (paths, mode) = (supported(), args().nth(1));
    let piece = if mode.as_deref() == Some("--pieces") { 100 } else { usize::MAX };
    print!("{:>7}", "bytes");
    paths.iter().for_each(|(name, _)| print!(" {name:>10}"));
    println!();
    if mode.as_deref() == Some("--all") {
        let paths = [paths[0], paths[paths.len() - 1]];
        let gain = |times: &[f64]| times[1] / times[0];
        let all = (0..=16384).map(|length| (length, compare(&paths, &bytes, length)));
        if let Some((length, least)) = all.min_by(|(_, a), (_, b)| gain(a).total_cmp(&gain(b))) {
            print_row(length, &least);
        }
        return;
    }
    for length in LENGTHS {
        print_row(length, &times(&paths, &bytes, length, piece, 300));
    }
}

/// Returns the times of two paths, and prints them if the first is slower. If the first is not
/// clearly faster, eight longer attempts follow.
fn compare(paths: &[(&str, Path)], bytes: &[u8], length: usize) -> Vec<f64> {
    let mut best = times(paths, bytes, length, usize::MAX, 3);
    for attempt in 0..8 {
        if 1.2 * best[0] <= best[1] {
            return best;
        }
        let again = times(paths, bytes, length, usize::MAX, 10 << attempt);
        best.iter_mut().zip(again).for_each(|(best, again)| *best = best.min(again));
    }
    if best[0] > best[1] {
        print_row(length, &best);
    }
    best
}

fn print_row(length: usize, times: &[f64]) {
    print!("{length:>7}");
    times.iter().for_each(|time| print!(" {time:>10.1}"));
    println!();
}

/// Returns the least time of each path, after `rounds` rounds by turns.
fn times(paths: &[(&str, Path)], bytes: &[u8], length: usize, piece: usize, rounds: usize) -> Vec<f64> {
    let calls = (20_000_000 / (length + 20_000)).max(10);
    let mut best = vec![f64::INFINITY; paths.len()];
    for _ in 0..rounds {
        for (best, (_, path)) in best.iter_mut().zip(paths) {
            *best = best.min(time(*path, bytes, length, piece, calls));
        }
    }
    best
}

/// Returns the nanoseconds of an input, in one round.
fn time(path: Path, bytes: &[u8], length: usize, piece: usize, calls: usize) -> f64 {
    let (start, mut last) = (Instant::now(), 0);
    for call in 0..calls {
        let at = (call as u64 ^ last) as usize % OFFSETS;
        let input = &bytes[at..at + black_box(length)];
        last = if piece >= length {
            path(black_box(u64::MAX), input)
        } else {
            input.chunks(piece).fold(black_box(u64::MAX), path)
        };
    }
    black_box(last);
    start.elapsed().as_nanos() as f64 / calls as f64
}
