use std::future::poll_fn;

use bytes::BytesMut;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};

use super::poll_read_both;

#[tokio::test]
async fn a_read_fills_the_first_place_and_then_the_second() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut writer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (reader, _) = listener.accept().await.unwrap();
    let mut first = BytesMut::from(&b"ab"[..]);
    first.reserve(100);
    let mut second = BytesMut::with_capacity(4);
    writer.write_all(b"cdefghijk").await.unwrap();
    reader.readable().await.unwrap();

    // Five of the nine bytes go to the first buffer, and four to the second buffer, which is then
    // full.
    let read = poll_fn(|cx| poll_read_both(&reader, cx, &mut first, 5, &mut second)).await.unwrap();
    assert_eq!(read, (5, 4));
    assert_eq!((&first[..], &second[..]), (&b"abcdefg"[..], &b"hijk"[..]));

    // Bytes that arrive later are not missed, although the previous read marked the socket as
    // drained.
    for byte in [b"x", b"y"] {
        writer.write_all(byte).await.unwrap();
        second.clear();
        second.reserve(8);
        let read = poll_fn(|cx| poll_read_both(&reader, cx, &mut first, 0, &mut second)).await.unwrap();
        assert_eq!((read, &second[..]), ((0, 1), &byte[..]));
    }

    drop(writer);
    let read = poll_fn(|cx| poll_read_both(&reader, cx, &mut first, 5, &mut second)).await.unwrap();
    assert_eq!(read, (0, 0), "the end of the stream");
}
