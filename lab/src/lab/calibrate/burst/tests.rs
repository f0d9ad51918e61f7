use super::*;

#[test]
fn trains_hold_whole_packets() {
    assert_eq!((of_train(1472), of_train(8972)), (10, 1));
}

#[test]
fn what_found_no_room_is_read_by_name() {
    let snmp = "Tcp: A RcvbufErrors\nTcp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors\nUdp: 10 20 30 40\n";
    assert_eq!(no_room(snmp), Some(30));
    assert_eq!(no_room("Udp: InDatagrams\nUdp: 3\n"), None);
}
