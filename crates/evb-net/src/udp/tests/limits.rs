//! Datagrams that the kernel refuses, and datagrams that it loses.

use std::os::fd::{AsFd as _, AsRawFd as _};

use super::*;

#[tokio::test]
async fn what_the_kernel_drops_for_a_sleeping_reader_is_counted() {
    let small = UdpOptions { receive_buffer: Some(Bytes::kib(16)), ..UdpOptions::default() };
    let (mut builder, mut source) = pair(LOOPBACK, &small);
    assert_eq!(builder.receive_drops().unwrap(), 0);
    for number in 0..200u8 {
        source.send_train(&[IoSlice::new(&[number; 1400])], 1472, None).unwrap();
    }
    let dropped = builder.receive_drops().unwrap();
    assert!((1..200).contains(&dropped), "{dropped}");
    let came = receive(&mut builder, 200 - dropped as usize).await;
    assert_eq!(came.len() as u64 + dropped, 200);
    assert_eq!(builder.receive_drops().unwrap(), dropped, "drops are counted once");
}

#[tokio::test]
async fn a_datagram_beyond_the_devices_mtu_is_refused() {
    let (builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    let mtu = source.mtu().unwrap();
    assert_eq!(mtu, 65_535, "the loopback device's is one more, but no IP packet is longer");
    let (mut stranger, _) = at(LOOPBACK, &UdpOptions::default());
    assert!(stranger.mtu().is_err(), "no peer, no MTU");
    // No datagram can have 65,508 bytes, but a train meets evb's own limit of 65,487 bytes first.
    let beyond = vec![0; 65_488];
    assert!(matches!(source.send_train(&[IoSlice::new(&beyond)], 65_488, None), Err(SendError::Io(_))));
    let peer = builder.local_addr().unwrap();
    assert!(matches!(stranger.send_to(peer, &[0; 65_508]), Err(SendError::TooLarge)));
}

#[tokio::test]
async fn trains_of_too_many_datagrams_or_slices_are_refused() {
    let (_builder, mut source) = pair(LOOPBACK, &UdpOptions::default());
    let bytes = [0; 1 << 12];
    let many: Vec<_> = bytes.chunks(2).map(IoSlice::new).collect();
    for (slices, segment) in [(&many[..], 63), (&many[..33], 1)] {
        assert!(slices.iter().map(|slice| slice.len()).sum::<usize>() > MAX_DATAGRAMS * usize::from(segment));
        match source.send_train(slices, segment, None) {
            Err(SendError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
    }
    let slices = [IoSlice::new(&bytes[..1]); 1025];
    assert!(matches!(source.send_train(&slices, 1472, None), Err(SendError::Io(_))));
    assert_eq!(source.send_train(&slices[..1024], 1472, None).unwrap(), 1024);
}

#[tokio::test]
async fn nobody_listening_is_counted_in_both_directions_and_ends_nothing() {
    let (nobody, address) = at(LOOPBACK, &UdpOptions::default());
    drop(nobody);
    let mut source = open(LOOPBACK.parse().unwrap(), Some(address), &UdpOptions::default()).unwrap();
    for _ in 0..5 {
        assert_eq!(source.send_train(&[IoSlice::new(&[0; 3000])], 1000, None).unwrap(), 3000);
    }
    assert!(source.counts().unwrap().trains.other >= 1);
    // The kernel delivers the report about the last datagram before the datagrams that arrive next.
    let mut late = open(address, None, &UdpOptions::default()).unwrap();
    assert!(late.send_to(source.local_addr().unwrap(), b"here now").unwrap());
    assert_eq!(receive(&mut source, 1).await, [(address, b"here now".to_vec())]);
    let counts = source.counts().unwrap();
    assert_eq!((counts.icmp, counts.too_large_for_path), (1, 0));
}

#[tokio::test]
async fn a_full_socket_is_awaited() {
    let small = UdpOptions { send_buffer: Some(Bytes::kib(64)), ..UdpOptions::default() };
    // On the loopback, datagrams leave the socket's buffer at once, so this test needs a device
    // whose queue holds them back.
    let Some(_place) = device::Place::enter(&["ip", "tc"]) else { return };
    let bucket = evb_needs::run("tc qdisc add dev cable0 root tbf rate 20mbit burst 8k limit 1m");
    let Some(_) = evb_needs::granted(bucket) else { return };
    let peer = "10.78.0.2:9".parse().unwrap();
    let mut source = open("10.78.0.1:0".parse().unwrap(), Some(peer), &small).unwrap();
    let train = pattern(20 * 1400);
    let (mut sent, mut waits) = (0, 0);
    while sent < 40 {
        match source.send_train(&[IoSlice::new(&train)], 1400, None) {
            Ok(bytes) => {
                assert_eq!(bytes, train.len());
                sent += 1;
            }
            Err(SendError::Full) => {
                waits += 1;
                let writable = std::future::poll_fn(|cx| source.poll_writable(cx));
                tokio::time::timeout(Duration::from_secs(5), writable).await.expect("it drains").unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!((5..=80).contains(&waits), "{waits} waits for 40 trains: it must sleep, not spin");
}

/// Checks that departing datagrams wake no task, although each frees room in its socket's buffer,
/// and the kernel wakes tasks that watch for room.
#[tokio::test]
async fn what_leaves_wakes_nobody() {
    let (_builder, source) = pair(LOOPBACK, &UdpOptions::default());
    let socket = source.as_fd().as_raw_fd();
    // The lines `tfd: DESCRIPTOR events: HEX` (fs/eventpoll.c) list the descriptors that this
    // process watches, for all its epoll instances.
    let infos = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let texts = infos.filter_map(|info| std::fs::read_to_string(info.unwrap().path()).ok());
    let watched: Vec<u32> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [_, descriptor, _, events, ..] = words[..] else { return None };
            (line.starts_with("tfd:") && descriptor.parse() == Ok(socket)).then_some(events)?;
            u32::from_str_radix(events, 16).ok()
        })
        .collect();
    // All entries for the socket must watch for input only.
    let directions = (libc::EPOLLIN | libc::EPOLLOUT) as u32;
    assert!(!watched.is_empty());
    assert!(watched.iter().all(|events| events & directions == libc::EPOLLIN as u32), "{watched:x?}");
}
