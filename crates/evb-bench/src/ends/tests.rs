use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{Dialogue, SocketWishes, accept_from, granted, measure, tcp_connect, tcp_listener};
use crate::output::BenchError;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Number {
    number: u32,
}

fn double(dialogue: &mut Dialogue) -> io::Result<()> {
    while let Some(Number { number }) = dialogue.hear(Duration::from_secs(5))? {
        dialogue.say(&Number { number: number.wrapping_mul(2) })?;
    }
    Ok(())
}

#[test]
fn both_ends_talk_in_one_process() {
    let doubled = measure(None, "test", double, |mut dialogue| {
        dialogue.say(&Number { number: 21 }).map_err(BenchError::system("say"))?;
        dialogue.must_hear::<Number>(Duration::from_secs(5)).map_err(BenchError::system("hear"))
    });
    assert_eq!(doubled.expect("measured"), Number { number: 42 });
    let failed = measure(None, "test", double, |_| Err::<(), _>(BenchError::Operator("no".into())));
    assert!(failed.is_err_and(|error| error.to_string() == "no"));
}

#[test]
fn a_peer_that_is_none_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let to = listener.local_addr().expect("known");
    for said in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"{\"bench\":\"other\",\"version\":1}\n", b""] {
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("connected");
                stream.write_all(said).expect("written");
            });
            measure(Some(to), "test", double, |_| Ok(())).expect_err("refused")
        });
        assert!(matches!(error, BenchError::Operator(_)), "{error:?}");
        assert!(error.to_string().contains("not the far end of `evb-bench test`"), "{error}");
    }
    drop(listener);
    let error = measure(Some(to), "test", double, |_| Ok(())).expect_err("nobody listens");
    assert!(error.to_string().contains(&format!("cannot reach {to}")), "{error}");
    assert!(error.to_string().contains("--listen"), "{error}");
}

#[test]
fn a_line_without_end_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut stream = TcpStream::connect(listener.local_addr().expect("known")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    let serving = thread::spawn(move || Dialogue::answer(far, "test").map(|_| ()));
    // The far end reads a limited number of bytes, fails, and closes the connection.
    stream.write_all(&[b'['; 4096]).expect("written");
    let error = serving.join().expect("joined").expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn sockets_get_what_was_asked_or_say_so() {
    let local = "127.0.0.1:0".parse().expect("an address");
    let wishes = SocketWishes { buffer: Some(16 * 1024), mss: Some(536) };
    let listener = tcp_listener(local, wishes).expect("listens");
    let at = listener.local_addr().expect("known");
    let patience = Duration::from_secs(5);
    let sender = tcp_connect(local, at, wishes, patience).expect("connected");
    let receiver = accept_from(&listener, local.ip(), patience).expect("accepted");
    let (send, _) = granted(&sender).expect("known");
    let (_, receive) = granted(&receiver).expect("known");
    assert_eq!((send.count(), receive.count()), (16 * 1024, 16 * 1024));
    let mss = socket2::SockRef::from(&sender).tcp_mss().expect("known");
    assert!((500..=536).contains(&mss), "{mss}");
    let short = Duration::from_millis(20);
    let error = accept_from(&listener, local.ip(), short).expect_err("nobody connects");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let _other = tcp_connect(local, at, wishes, patience).expect("connected");
    let stranger = "192.0.2.1".parse().expect("an address");
    assert!(accept_from(&listener, stranger, short).is_err(), "a connection of another host was accepted");
}
