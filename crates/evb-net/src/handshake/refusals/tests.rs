use std::{
    iter::{empty, repeat_n},
    net::SocketAddr,
    time::Duration,
};

use evb_core::wire::{control::RefusalReport, preamble::PreambleError};

use super::{ADDRESSES, BARRED, FAILURES, GREETINGS_OF_ONE, HandshakeError, RefusalLog};
use crate::security::Forged;

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

#[test]
fn an_address_whose_handshakes_fail_is_barred_for_a_while_and_others_are_not() {
    let mut log = RefusalLog::new("test");
    let (stranger, peer, here) = (at("10.1.2.3:99"), at("10.1.2.4:99"), at("127.0.0.1:99"));
    for failure in 0..FAILURES.get() {
        assert!(log.admits(stranger, empty()), "after {failure} failures");
        log.record_failure(stranger, &HandshakeError::WrongKey);
        log.record_failure(here, &HandshakeError::WrongKey);
    }
    log.record_failure(stranger, &HandshakeError::WrongKey);
    assert!(!log.admits(stranger, empty()) && !log.admits(at("10.1.2.3:100"), empty()));
    assert!(log.admits(peer, empty()) && log.admits(here, repeat_n(here, GREETINGS_OF_ONE)));
    assert_eq!(log.counts().limited, 2);
    std::thread::sleep(BARRED + Duration::from_millis(10));
    assert!(log.admits(stranger, empty()), "it may try again");
}

#[test]
fn one_ipv6_network_is_one_address() {
    let mut log = RefusalLog::new("test");
    for host in 0..=FAILURES.get() {
        log.record_silence(at(&format!("[2001:db8::{host:x}]:1")));
    }
    assert!(!log.admits(at("[2001:db8::ffff]:1"), empty()));
    assert!(log.admits(at("[2001:db8:0:1::1]:1"), empty()));
}

#[test]
fn one_address_does_not_take_all_places() {
    let mut log = RefusalLog::new("test");
    let (one, other) = (at("10.0.0.1:1"), at("10.0.0.2:1"));
    assert!(log.admits(one, repeat_n(at("10.0.0.1:9"), GREETINGS_OF_ONE - 1)));
    assert!(
        !log.admits(one, repeat_n(at("10.0.0.1:9"), GREETINGS_OF_ONE))
            && log.admits(other, repeat_n(one, GREETINGS_OF_ONE))
    );
    let hosts = || (0..GREETINGS_OF_ONE).map(|host| at(&format!("[2001:db8::{host:x}]:1")));
    assert!(!log.admits(at("[2001:db8::ffff]:1"), hosts()), "all of its network count");
    assert!(log.admits(at("[2001:db8:0:1::1]:1"), hosts()));
}

#[test]
fn reasons_are_counted_apart() {
    let mut log = RefusalLog::new("test");
    let peer = at("10.0.0.1:1");
    let foreign = HandshakeError::Preamble(PreambleError::Foreign(*b"GET / HT"));
    let version = HandshakeError::Preamble(PreambleError::Version { theirs: 1 });
    for error in [foreign, version, HandshakeError::NoKey, HandshakeError::WrongKey, HandshakeError::Timeout]
    {
        log.record_failure(peer, &error);
    }
    log.record_failure(peer, &HandshakeError::TooLong { length: 5000 });
    log.record_failure(peer, &HandshakeError::Forged(Forged));
    log.record_refusal(peer, &"this is builder 2");
    log.record_silence(peer);
    log.count_forged();
    let counts = RefusalReport {
        foreign: 1,
        keys: 2,
        silent: 2,
        malformed: 1,
        forged: 2,
        unwelcome: 1,
        limited: 0,
        version: 1,
    };
    assert_eq!(log.counts(), counts);
}

#[test]
fn lines_are_few_for_one_address_and_few_for_all() {
    let mut log = RefusalLog::new("test");
    let one = at("10.0.0.1:1");
    assert_eq!((0..1000).filter(|_| log.next_line_of(one).is_some()).count(), 3);
    let many =
        (0..1000).filter(|n| log.next_line_of(at(&format!("10.0.{}.{}:1", n / 250, n % 250))).is_some());
    assert!(many.count() <= 3, "five at once, and one a second");
}

#[test]
fn a_crowd_takes_no_memory_without_end() {
    let mut log = RefusalLog::new("test");
    for n in 0..20 * ADDRESSES {
        let peer = at(&format!("10.{}.{}.{}:1", n >> 16, n >> 8 & 255, n & 255));
        log.record_failure(peer, &HandshakeError::WrongKey);
    }
    assert!(log.failures.len() <= ADDRESSES + 1 && log.lines.len() <= ADDRESSES + 1);
    assert!(log.barred.len() <= ADDRESSES);
}
