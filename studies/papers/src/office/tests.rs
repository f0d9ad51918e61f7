use std::net::TcpListener;

use super::*;

#[test]
fn a_visit_lasts_until_all_bytes_are_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        thread::sleep(Duration::from_millis(30));
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        read.len()
    });
    let took = visit(to).unwrap();
    assert!(took >= 25.0, "{took} ms");
    assert_eq!(server.join().unwrap(), BYTES);
}

#[test]
fn a_visit_to_nobody_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    drop(listener);
    assert!(visit(to).is_err());
}
