use super::{congestion_control, path_mtu};
use crate::host::{link, route, setting};

#[test]
fn an_unknown_congestion_control_leaves_the_default() {
    let default = setting("net.ipv4.tcp_congestion_control").unwrap();
    assert_eq!(congestion_control(None).unwrap(), default);
    assert_eq!(congestion_control(Some("nosuchthing")).unwrap(), default);
    assert_eq!(congestion_control(Some("reno")).unwrap(), "reno");
}

#[test]
fn the_way_to_oneself_is_the_loopback() {
    let home = "127.0.0.1".parse().unwrap();
    let route = route::route(home, None).unwrap();
    let links = link::links().unwrap();
    let lo = links.iter().find(|link| link.index == route.device).unwrap();
    assert!(route.local && lo.loopback && lo.name == "lo", "{route:?} {lo:?}");
    // The length of an IPv4 packet has 16 bits (at most 65 535), but the loopback device reports an
    // MTU of 65 536.
    assert_eq!(path_mtu(home).ok(), lo.mtu.map(|mtu| mtu.min(65_535)));
}
