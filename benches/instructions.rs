//! Instructions per byte in user space, counted by valgrind: both directions of a lane over
//! datagrams and over a stream, with the ends used in production on loopback sockets; and the same
//! with peers that share a key (`_psk`). Instructions in the kernel are not counted. `cargo xtask
//! instructions` runs this benchmark and makes a table per byte from the counts;
//! docs/reference/benchmarks.md explains how to read it.

#![expect(clippy::unwrap_used, reason = "an error here is a failed measurement")]
#![expect(missing_docs, reason = "the macros make modules and functions without")]

#[path = "instructions/machines.rs"]
mod machines;
#[path = "instructions/datagrams.rs"]
mod datagrams;
#[path = "instructions/streams.rs"]
mod streams;

use evb_core::{fragment::Checksum, wire::datagram::DatagramKind};
use gungraun::{LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

use machines::{DATAGRAM, payload};

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = datagrams::Sending::of)]
fn datagrams_send(mut sending: datagrams::Sending) -> datagrams::Sending {
    sending.run();
    sending
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = datagrams::Receiving::of)]
fn datagrams_receive(mut receiving: datagrams::Receiving) -> datagrams::Receiving {
    receiving.run();
    receiving
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = streams::Sending::of)]
fn stream_send(mut sending: streams::Sending) -> streams::Sending {
    sending.run();
    sending
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = streams::Receiving::of)]
fn stream_receive(mut receiving: streams::Receiving) -> streams::Receiving {
    receiving.run();
    receiving
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = datagrams::Sending::protected)]
fn datagrams_send_psk(mut sending: datagrams::Sending) -> datagrams::Sending {
    sending.run();
    sending
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = datagrams::Receiving::protected)]
fn datagrams_receive_psk(mut receiving: datagrams::Receiving) -> datagrams::Receiving {
    receiving.run();
    receiving
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = streams::Sending::protected)]
fn stream_send_psk(mut sending: streams::Sending) -> streams::Sending {
    sending.run();
    sending
}

#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = streams::Receiving::protected)]
fn stream_receive_psk(mut receiving: streams::Receiving) -> streams::Receiving {
    receiving.run();
    receiving
}

// This benchmark is the part of `datagrams_send` and `datagrams_receive` that computes the
// checksums of datagrams, for segments whose bytes are contiguous.
#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = machines::lane_bytes)]
fn crc32c(bytes: Vec<u8>) -> Vec<u8> {
    let header = machines::header(DatagramKind::Data, 1, 0);
    for segment in bytes.chunks(DATAGRAM) {
        std::hint::black_box(header.seal([segment]));
    }
    bytes
}

// This benchmark is the part of `datagrams_receive` and `stream_receive` that computes the
// checksums of fragments, each over contiguous bytes.
#[library_benchmark]
#[benches::of(args = [64_000, 8_000, 1455, 100], setup = payload)]
fn crc64((payload, count): (Vec<u8>, usize)) -> Vec<u8> {
    for _ in 0..count {
        std::hint::black_box(Checksum::of(std::hint::black_box(&payload)));
    }
    payload
}

library_benchmark_group!(
    name = lanes,
    benchmarks = [
        datagrams_send,
        datagrams_receive,
        stream_send,
        stream_receive,
        datagrams_send_psk,
        datagrams_receive_psk,
        stream_send_psk,
        stream_receive_psk,
        crc32c,
        crc64
    ]
);

// valgrind counts each byte of a `rep movsb` or `rep stosb` as an instruction. Long copies must
// therefore use vector instructions.
const TUNABLES: &str =
    "glibc.cpu.x86_rep_movsb_threshold=0x40000000:glibc.cpu.x86_rep_stosb_threshold=0x40000000";

main!(
    config = LibraryBenchmarkConfig::default().env("GLIBC_TUNABLES", TUNABLES),
    library_benchmark_groups = lanes
);
