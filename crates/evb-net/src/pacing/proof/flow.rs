//! The proof that a TCP flow keeps the rate of its socket.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsFd as _,
    time::Duration,
};

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

use super::{Trial, TrialResult, UNSENT};
use crate::{
    clock,
    pacing::{
        executor::{Executor as _, SocketRate},
        tso::TsoTrain,
    },
};

/// Rate that the flow must keep: slow enough for any host, fast enough for a short proof.
const RATE: Rate = Rate::from_bits_per_second(80_000_000);
/// Duration of the flow.
const TIME: Duration = Duration::from_millis(150);
/// Largest allowed distance of the rate from the requested rate, as a fraction of the requested
/// rate.
const TOLERANCE: f64 = 0.1;
/// Maximum number of attempts, since a busy host may delay the flow.
const ATTEMPTS: usize = 3;
/// Factor by which an unpaced flow must be faster than the paced flow; otherwise something other
/// than pacing limits the flow.
const FASTER: f64 = 1.5;

/// Tests the pacing of TCP, which paces by itself on any device (since Linux 4.20 by departure
/// times, with or without `fq`). A flow inside this host suffices as a proof, and needs no listener
/// on another host.
pub(super) fn paced(trial: &Trial, tso: TsoTrain) -> io::Result<TrialResult> {
    let volume = (RATE * TIME).count();
    let mut free = 0.0f64;
    let mut last = TrialResult::failed("nothing was sent");
    for _ in 0..ATTEMPTS {
        // A flow is paced only if the same flow without a pace is much faster.
        free = free.max(flow(trial, None, volume)?);
        let seen = flow(trial, Some(RATE), volume)?;
        let asked = RATE.bytes_per_second();
        let error = (seen - asked).abs() / asked;
        let rate = trial.rate.unwrap_or(RATE);
        let burst = tso.length(rate, UNSENT, Bytes::new(u64::MAX));
        last = TrialResult {
            held: error <= TOLERANCE && free > FASTER * seen,
            undecided: false,
            median_error: Some(error),
            p99: None,
            why: format!(
                "{:.1} Mbit/s measured where {:.1} were asked, and {:.1} without pacing; the kernel still sends up to {burst} at once ({tso})",
                seen * 8e-6,
                asked * 8e-6,
                free * 8e-6
            ),
        };
        if last.held {
            break;
        }
    }
    Ok(last)
}

/// Measures a TCP flow of `volume` bytes from an address of this host to the same address. Returns
/// its rate in bytes per second.
fn flow(trial: &Trial, rate: Option<Rate>, volume: u64) -> io::Result<f64> {
    let listener = TcpListener::bind((trial.from, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    for stream in [&sender, &receiver] {
        stream.set_read_timeout(Some(TIME))?;
        stream.set_write_timeout(Some(TIME))?;
        stream.set_nodelay(true)?;
    }
    if let Some(rate) = rate {
        SocketRate::new(UNSENT).prepare(sender.as_fd(), Some(rate))?;
    }
    let give_up = clock::now() + TIME * 2;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Without pacing, large writes cost the least; with pacing, small writes keep bursts
            // short.
            let room = vec![0u8; if rate.is_none() { 1 << 16 } else { 1 << 12 }];
            let mut left = volume;
            while left > 0 && clock::now() < give_up {
                let length = room.len().min(usize::try_from(left).unwrap_or(room.len()));
                match sender.write(&room[..length]) {
                    Ok(written) => left -= written as u64,
                    Err(_) => break,
                }
            }
        });
        receive(&mut receiver, give_up)
    })
}

/// Returns the rate at which bytes arrive, without the first fifth of the bytes, which TCP's first
/// window lets pass unpaced.
fn receive(receiver: &mut TcpStream, give_up: Instant) -> io::Result<f64> {
    let mut room = vec![0u8; 1 << 17];
    let mut arrivals: Vec<(f64, f64)> = Vec::new();
    let began = clock::now();
    let mut total = 0;
    while clock::now() < give_up {
        match receiver.read(&mut room) {
            Ok(0) => break,
            Ok(length) => {
                total += length as u64;
                arrivals.push((clock::now().since(began).as_secs_f64(), total as f64));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let start = arrivals.iter().position(|(_, bytes)| *bytes >= total as f64 / 5.0).unwrap_or(0);
    slope(arrivals.get(start..).unwrap_or_default()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Returns the slope of the line that fits the points best (least squares), which bursts at both
/// ends hardly affect.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x / count).sum::<f64>();
    let mean_y = points.iter().map(|(_, y)| y / count).sum::<f64>();
    let covariance = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let variance = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    (variance > 0.0).then(|| covariance / variance)
}
