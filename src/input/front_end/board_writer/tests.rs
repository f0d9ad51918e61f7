//! What boards are told on their connections.

use std::{fs, io, time::Duration};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::{
    io::AsyncReadExt as _,
    net::{UnixListener, UnixStream},
    time::timeout,
};

use super::{BoardLine, BoardWriter};

#[tokio::test]
async fn a_board_is_told_when_it_is_connected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("board");
    let listener = UnixListener::bind(&path).unwrap();
    let writer = BoardWriter::default();
    let told = timeout(Duration::from_millis(50), writer.send(b"early")).await;
    assert!(told.is_err() && !writer.is_connected());
    let later = writer.clone();
    let sending = tokio::spawn(async move { later.send(&[0xff, 0, 0xa5]).await });
    let (_read, write) = UnixStream::connect(&path).await.unwrap().into_split();
    let (mut board, _) = listener.accept().await.unwrap();
    writer.open(BoardLine::Unix(write));
    sending.await.unwrap().unwrap();
    let mut heard = [0; 3];
    board.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, [0xff, 0, 0xa5]);
    writer.close();
    assert!(!writer.is_connected());
    assert_eq!(board.read(&mut heard).await.unwrap(), 0, "the connection is closed");
}

#[tokio::test]
async fn only_a_device_takes_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let send = async |path| {
        let writer = BoardWriter::default();
        writer.open(BoardLine::Device(path));
        writer.send(b"start").await
    };
    send("/dev/null".into()).await.unwrap();
    fs::write(at("capture"), "frames").unwrap();
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _reader = fs::File::options().read(true).write(true).open(at("fifo")).unwrap();
    for name in ["capture", "fifo"] {
        assert_eq!(send(at(name)).await.unwrap_err().kind(), io::ErrorKind::Unsupported, "{name}");
    }
    assert_eq!(fs::read_to_string(at("capture")).unwrap(), "frames");
    assert_eq!(send(at("absent")).await.unwrap_err().kind(), io::ErrorKind::NotFound);
}
