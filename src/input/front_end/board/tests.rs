use evb_core::{
    fragment::Fragment,
    framing::{Extent, FrameField, FrameLayout, LengthCounts, Mark},
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, UnixListener},
    sync::mpsc,
    task::JoinHandle,
    time::Instant,
};

use super::{
    super::{FrontEndListener, receive_frames},
    *,
};
use crate::input::{
    Framing,
    taker::tests::{Channel, Heap},
};

const LIMIT: Bytes = Bytes::kib(256);

/// A layout of magic, length of the payload, and a counter of 32 bits.
fn framing() -> Framing {
    let length = FrameField::new(2, 4);
    let mut layout = FrameLayout::new(10, Extent::Stated { length, unit: 1, counted: LengthCounts::Payload });
    layout.magic = Some(Mark::new(0, [0xeb, 0x90]));
    layout.counter = Some(FrameField::new(6, 4));
    Framing::new(layout, LIMIT).unwrap()
}

fn frame(counter: u32, length: usize) -> Vec<u8> {
    [&[0xeb, 0x90][..], &(length as u32).to_be_bytes(), &counter.to_be_bytes(), &vec![counter as u8; length]]
        .concat()
}

fn serve(board: BoardStream) -> (mpsc::Receiver<Fragment>, JoinHandle<()>) {
    let (sender, taken) = mpsc::channel(64);
    (taken, tokio::spawn(async move { board.serve_to(Channel(sender)).await }))
}

async fn next(taken: &mut mpsc::Receiver<Fragment>) -> Fragment {
    timeout(Duration::from_secs(30), taken.recv()).await.expect("in time").expect("served")
}

#[tokio::test]
async fn frames_of_all_sizes_come_whole_from_a_stream_in_pieces() {
    let sizes = [0, 1, 1000, 70_000, 3, 250_000, 40_000, 65_536, 5];
    let stream: Vec<u8> = (1..).zip(sizes).flat_map(|(counter, size)| frame(counter, size)).collect();
    for capacity in [100, 7000, 1 << 20] {
        let (mut board, evb) = tokio::io::duplex(capacity);
        let bytes = stream.clone();
        tokio::spawn(async move { board.write_all(&bytes).await });
        let (heap, front_ends) = (Heap::default(), FrontEnds::new(BeforeStart::Keep, 1));
        let count = receive_frames(evb, Box::new(framing()), &heap, &front_ends).await.unwrap();
        assert_eq!(count, sizes.len() as u64);
        let all: Vec<u8> = heap.taken().iter().flat_map(|fragment| fragment.payload.to_vec()).collect();
        assert!(all == stream, "with pieces of {capacity}");
    }
}

/// A board that dies within a frame comes back: no bytes of the old connection join the new one,
/// and the source sees that it was gone.
#[tokio::test]
async fn a_board_that_comes_back_is_connected_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    let board = BoardStream::tcp(address, framing().decoders()).with_front_ends(front_ends.clone());
    let (mut taken, task) = serve(board);
    let mut connected = front_ends.connected();
    for round in 0..3 {
        let (mut board, _) = listener.accept().await.unwrap();
        connected.wait_for(|count| *count == 1).await.unwrap();
        let bytes = [frame(round * 2 + 1, 100), frame(round * 2 + 2, 100)].concat();
        board.write_all(&bytes[..150]).await.unwrap();
        assert_eq!(next(&mut taken).await.payload, frame(round * 2 + 1, 100));
        drop(board);
        connected.wait_for(|count| *count == 0).await.unwrap();
    }
    assert_eq!(front_ends.counts().malformed, 3, "each of them was cut short");
    assert_eq!(front_ends.counts().losses.garbage_bytes, 3 * 40);
    task.abort();
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_at_growing_intervals() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (mut taken, task) = serve(BoardStream::tcp(address.to_string(), framing().decoders()));
    sleep(Duration::from_millis(400)).await;
    let listener = TcpListener::bind(address).await.unwrap();
    let (begun, (mut board, _)) = (Instant::now(), listener.accept().await.unwrap());
    assert!(begun.elapsed() < Duration::from_secs(2));
    board.write_all(&frame(9, 10)).await.unwrap();
    assert_eq!(next(&mut taken).await.event.number(), 9);
    task.abort();
    let mut attempts = Attempts::default();
    (0..10).for_each(|_| attempts.lengthen());
    assert_eq!(attempts.wait, BACK_OFF.1);
    attempts.note_end(1);
    assert_eq!(attempts.wait, BACK_OFF.0, "it was well");
}

#[tokio::test]
async fn unix_sockets_fifos_and_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let read = |name: &str| serve(BoardStream::path(path(name), framing().decoders()));

    let listener = UnixListener::bind(path("socket")).unwrap();
    let (mut taken, socket) = read("socket");
    let (mut board, _) = listener.accept().await.unwrap();
    board.write_all(&frame(1, 10)).await.unwrap();
    assert_eq!(next(&mut taken).await.event.number(), 1);
    socket.abort();

    fs::write(path("file"), [frame(1, 10), frame(2, 20)].concat()).unwrap();
    let (mut taken, file) = read("file");
    assert_eq!(next(&mut taken).await.event.number(), 1);
    assert_eq!(next(&mut taken).await.event.number(), 2);
    assert!(timeout(Duration::from_millis(300), taken.recv()).await.is_err(), "it is read once");
    file.abort();

    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let (mut taken, fifo) = read("fifo");
    for counter in [5, 6] {
        let (to, bytes) = (path("fifo"), frame(counter, 30));
        let written = tokio::task::spawn_blocking(move || fs::write(to, bytes));
        assert_eq!(next(&mut taken).await.event.number(), u64::from(counter));
        written.await.unwrap().unwrap();
    }
    fifo.abort();
}

/// A listener with a declared layout takes boards that connect, and not evb's protocol.
#[tokio::test]
async fn boards_may_connect_to_a_listener() {
    let addresses = ["127.0.0.1:0".parse().unwrap()];
    let listener =
        FrontEndListener::tcp(&addresses, LIMIT).await.unwrap().with_decoders(framing().decoders());
    let address = listener.address().unwrap();
    let (sender, mut taken) = mpsc::channel(8);
    let task = tokio::spawn(async move {
        let mut connections = super::super::Connections::new(&listener);
        listener.serve_to(Channel(sender), &mut connections).await;
    });
    let mut board = TcpStream::connect(address).await.unwrap();
    board.write_all(&[frame(3, 50), frame(4, 0)].concat()).await.unwrap();
    assert_eq!(next(&mut taken).await.payload, frame(3, 50));
    assert_eq!(next(&mut taken).await.event.number(), 4);
    task.abort();
}

/// At the start of a run, a whole frame from before is treated as configured, and a frame of which
/// only a part was there is not used.
#[tokio::test]
async fn frames_from_before_the_start_are_no_part_of_the_run() {
    for (before_start, expected) in [(BeforeStart::Keep, &[1_u64, 3][..]), (BeforeStart::Discard, &[3])] {
        let (mut board, evb) = tokio::io::duplex(1 << 16);
        let front_ends = FrontEnds::new(before_start, 1);
        let (heap, shared) = (Heap::default(), front_ends.clone());
        let taker = heap.clone();
        let reading =
            tokio::spawn(
                async move { receive_frames(evb, Box::new(framing()), &taker, &shared).await.unwrap() },
            );
        let (second, third) = (frame(2, 100), frame(3, 100));
        // The last bytes that show that the first frame is whole come after the start.
        board.write_all(&frame(1, 100)).await.unwrap();
        tokio::task::yield_now().await;
        front_ends.start();
        sleep(Duration::from_millis(50)).await;
        board.write_all(&second[..50]).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        front_ends.start();
        board.write_all(&[&second[50..], &third].concat()).await.unwrap();
        drop(board);
        assert_eq!(reading.await.unwrap(), 3);
        let events: Vec<_> = heap.taken().iter().map(|fragment| fragment.event.number()).collect();
        assert_eq!(events, expected, "{before_start:?}");
        assert_eq!(front_ends.counts().discarded, 3 - expected.len() as u64);
    }
}
