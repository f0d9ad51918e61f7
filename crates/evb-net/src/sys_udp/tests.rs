use std::net::SocketAddr;

use super::{ADDRESS, RawAddress};

/// Builds an address with the layout of `sockaddr_in` or `sockaddr_in6`.
fn raw(family: i32, port: u16, rest: &[u8]) -> RawAddress {
    let mut bytes = [0; ADDRESS];
    bytes[..2].copy_from_slice(&u16::try_from(family).unwrap().to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..4 + rest.len()].copy_from_slice(rest);
    RawAddress(bytes)
}

#[test]
fn addresses_are_read_as_the_kernel_writes_them() {
    let four = raw(libc::AF_INET, 4711, &[10, 77, 0, 1]);
    assert_eq!(four.read(16), Some("10.77.0.1:4711".parse::<SocketAddr>().unwrap()));
    let mut rest = vec![1, 2, 3, 4];
    rest.extend_from_slice(&"fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    rest.extend_from_slice(&3u32.to_ne_bytes());
    let six = raw(libc::AF_INET6, 4711, &rest);
    assert_eq!(six.read(28), Some("[fe80::1%3]:4711".parse::<SocketAddr>().unwrap()));
}

#[test]
fn what_is_no_address_is_none() {
    let four = raw(libc::AF_INET, 1, &[127, 0, 0, 1]);
    assert_eq!(four.read(0), None);
    assert_eq!(four.read(7), None);
    assert_eq!(raw(libc::AF_INET6, 1, &[0; 24]).read(16), None);
    assert_eq!(raw(libc::AF_UNIX, 1, &[127, 0, 0, 1]).read(16), None);
    assert_eq!(four.read(ADDRESS + 1), None);
}
