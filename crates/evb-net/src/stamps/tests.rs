use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsFd as _,
    thread,
};

use super::*;

#[test]
fn one_occasion_of_sixteen_is_a_sample() {
    let mut sampler = Sampler::new();
    let picked: Vec<_> = (0..64)
        .filter(|_| {
            let is_due = sampler.is_due();
            sampler.count();
            is_due
        })
        .collect();
    assert_eq!(picked, [3, 19, 35, 51]);
}

#[test]
fn a_clock_that_was_set_tells_nothing() {
    let now = sys_time::realtime_nanos();
    assert_eq!(waited(now + 1_000_000_000), None, "from the future");
    assert_eq!(waited(now - 61_000_000_000), None, "for a minute");
    assert!(waited(now - 1_000_000).is_some_and(|waited| waited >= Duration::from_millis(1)));
}

#[test]
#[cfg(target_os = "linux")]
fn a_peek_says_how_long_a_stream_has_waited_and_takes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut reader, _) = listener.accept().unwrap();
    let stamps = ReadSampler::of(reader.as_fd());
    if look_cost() > DEAR / 2 {
        return evb_needs::skip(&evb_needs::Missing::new("a clock that is read in less time"));
    }
    assert_eq!(stamps.waited(reader.as_fd()), None, "nothing is here");
    let pause = Duration::from_millis(20);
    // The kernel begins to stamp data a moment after the socket option is set.
    let waited = (0..100).find_map(|_| {
        writer.write_all(b"grant").unwrap();
        thread::sleep(pause);
        let waited = stamps.waited(reader.as_fd());
        let mut bytes = [0; 5];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"grant");
        waited
    });
    assert!(waited.is_some_and(|waited| pause / 2 < waited && waited < LONGEST), "{waited:?}");
    drop(writer);
    let mut rest = Vec::new();
    assert_eq!((reader.read_to_end(&mut rest).unwrap(), stamps.waited(reader.as_fd())), (0, None), "the end");
}
