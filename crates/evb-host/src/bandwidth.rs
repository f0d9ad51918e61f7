//! The memory bandwidth of this host, measured by loops over arrays.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    hint::black_box,
    io, thread,
    time::{Duration, Instant},
};

use evb_core::units::{Bytes, Rate};
use serde::Serialize;

/// A loop over whole arrays, as in STREAM (McCalpin, "Memory Bandwidth and Machine Balance in
/// Current High Performance Computers", 1995).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// `a = b`, as `memcpy`; each pass counts twice the size of an array, once read and once
    /// written.
    Copy,
    /// `a = b + s · c`; each pass counts three times the size of an array.
    Triad,
}

impl Kernel {
    /// Returns the bytes that a pass counts, in sizes of an array. Bytes that a cache reads before
    /// they are overwritten are not counted, as in STREAM.
    pub fn arrays(self) -> u64 {
        match self {
            Self::Copy => 2,
            Self::Triad => 3,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Copy => "copy",
            Self::Triad => "triad",
        })
    }
}

/// Three arrays of the same size.
#[derive(Debug)]
pub struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Arrays {
    /// Creates arrays of `size` each, and writes every element, so that all memory is present
    /// before the measurement.
    pub fn new(size: Bytes) -> Self {
        let array = |value: f64| {
            let count = size.as_usize() / size_of::<f64>();
            (0..count).map(|index| value + index as f64 * 1e-9).collect()
        };
        Self { a: array(0.5), b: array(1.0), c: array(2.0) }
    }

    /// Makes passes for this time and a little longer, to the end of the last one; returns bytes
    /// per second.
    pub fn bandwidth(&mut self, kernel: Kernel, time: Duration) -> f64 {
        let size = (self.a.len() * size_of::<f64>()) as u64;
        let begin = Instant::now();
        let mut passes = 0u64;
        loop {
            self.pass(kernel);
            passes += 1;
            let taken = begin.elapsed();
            if taken >= time {
                return (passes * kernel.arrays() * size) as f64 / taken.as_secs_f64();
            }
        }
    }

    /// Makes one pass. The compiler must assume that the arrays are read and changed between two
    /// passes, so that it cannot leave a pass out.
    fn pass(&mut self, kernel: Kernel) {
        let (b, c) = (black_box(&self.b), black_box(&self.c));
        match kernel {
            Kernel::Copy => self.a.copy_from_slice(b),
            Kernel::Triad => {
                let scale = black_box(3.0);
                for ((a, b), c) in self.a.iter_mut().zip(b).zip(c) {
                    *a = b + scale * c;
                }
            }
        }
        black_box(&mut self.a);
    }
}

/// Returns the rate at which `threads` threads copy memory at the same time, each between arrays of
/// `size`; each byte counts once.
///
/// # Errors
/// The operating system's error, if it refuses a thread.
pub fn copy_rate(threads: usize, size: Bytes, time: Duration) -> io::Result<Rate> {
    let mut arrays: Vec<Arrays> = (0..threads.max(1)).map(|_| Arrays::new(size)).collect();
    let copy = |arrays: &mut Arrays| arrays.bandwidth(Kernel::Copy, time) / Kernel::Copy.arrays() as f64;
    thread::scope(|scope| {
        let start = |arrays| thread::Builder::new().spawn_scoped(scope, move || copy(arrays));
        let started: io::Result<Vec<_>> = arrays.iter_mut().map(start).collect();
        let sum: f64 = started?.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum();
        Ok(Rate::from_bytes_per_second(sum as u64))
    })
}
