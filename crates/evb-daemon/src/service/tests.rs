use std::{
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use super::{Notifier, watch::Watch};

fn heard(manager: &UnixDatagram) -> String {
    manager.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = [0; 256];
    let length = manager.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn the_manager_hears_by_path_and_by_abstract_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let limit = Some(Duration::from_secs(3));
    let notifier = Notifier::open(path.to_str().unwrap(), limit).unwrap();
    assert_eq!(notifier.watchdog(), limit);
    notifier.send("READY=1");
    assert_eq!(heard(&manager), "READY=1");

    use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};
    let name = format!("evb-test-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    Notifier::open(&format!("@{name}"), None).unwrap().send("STATUS=well");
    assert_eq!(heard(&manager), "STATUS=well");
    // Sending to a manager that has gone is harmless.
    drop(manager);
    notifier.send("READY=1");
}

#[test]
fn who_has_no_turn_for_too_long_hangs_and_may_come_back() {
    let begin = Instant::now();
    let at = |millis: u64| begin + Duration::from_millis(millis);
    let mut watch = Watch::new(Duration::from_millis(100));
    let turns = |a: u64, b: u64| vec![("a".to_owned(), a), ("b".to_owned(), b)];
    assert_eq!(watch.look(turns(1, 1), at(0)), Ok(()));
    assert_eq!(watch.look(turns(2, 1), at(90)), Ok(()));
    assert_eq!(watch.look(turns(3, 1), at(120)), Err(vec!["b".to_owned()]));
    assert_eq!(watch.look(turns(4, 2), at(200)), Ok(()));
    // A loop that has ended does not hang, and one of the same name starts from the beginning.
    assert_eq!(watch.look(vec![("a".to_owned(), 5)], at(500)), Ok(()));
    assert_eq!(watch.look(turns(6, 2), at(600)), Ok(()));
}
