//! The program of the test workers.

use std::{
    collections::VecDeque,
    env, fs,
    fs::File,
    io::{IoSliceMut, Write as _, stdin, stdout},
    mem::MaybeUninit,
    os::unix::fs::FileExt as _,
    process::{Command, exit},
    thread::sleep,
    time::Duration,
};

use evb_core::event::Event;
use evb_file::EventStream;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};

/// Behaves as `EVB_TEST_WORKER` says; returns at once without it.
pub(super) fn act() {
    let Ok(behaviour) = env::var("EVB_TEST_WORKER") else { return };
    let dir = env::var("EVB_TEST_DIR").unwrap();
    fs::write(format!("{dir}/pid-{}", std::process::id()), "").unwrap();
    match behaviour.as_str() {
        "crash" => exit(3),
        "mute" => sleep(Duration::from_secs(60)),
        "stranger" => answer(b"EVBF\x07\0\0\0"),
        _ => {}
    }
    judge_all(&behaviour, &dir);
    exit(0);
}

fn answer(bytes: &[u8]) {
    // evb may be gone.
    let _ = send(stdin(), bytes, SendFlags::NOSIGNAL);
}

/// Returns an answer. Kept events with an even id get it as their tag.
fn verdict(id: u64, is_kept: bool) -> Vec<u8> {
    let tag = if is_kept && id.is_multiple_of(2) { id } else { 0 };
    [id, u64::from(is_kept), tag].map(u64::to_le_bytes).concat()
}

fn judge_all(behaviour: &str, dir: &str) {
    let memory = greeted();
    answer(b"EVBF\x01\0\0\0");
    let (mut header, mut todo) = (Vec::new(), VecDeque::new());
    loop {
        let mut buffer = vec![0; 1 << 16];
        let (_, size) = recv(stdin(), &mut buffer, RecvFlags::empty()).unwrap();
        if size == 0 {
            return;
        }
        todo.extend(buffer[..size].chunks_exact(24).map(<[u8]>::to_vec));
        while let Some(entry) = todo.pop_front() {
            let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
            let (id, offset, last) = (number(0), number(8), number(16));
            let mut bytes = vec![0; last as u32 as usize];
            memory.read_exact_at(&mut bytes, offset).unwrap();
            if last >> 32 == 0 {
                header = bytes;
                continue;
            }
            let event = read(&header, &bytes);
            assert_eq!(event.id.number(), id);
            let is_kept = event.fragments().all(|fragment| fragment.payload[0] == 1);
            misbehave(behaviour, dir, id, is_kept);
            answer(&verdict(id, is_kept));
        }
    }
}

/// Reads the greeting, and returns the memory.
fn greeted() -> File {
    let mut bytes = [0; 32];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(stdin(), &mut [IoSliceMut::new(&mut bytes)], &mut rights, RecvFlags::empty()).unwrap();
    assert_eq!((read.bytes, &bytes[..6]), (16, &b"EVBF\x01\0"[..]));
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(mut memory) = message {
            return File::from(memory.next().unwrap());
        }
    }
    panic!("the greeting has no memory");
}

fn read(header: &[u8], record: &[u8]) -> Event {
    let bytes = [header, record].concat();
    let mut stream = EventStream::new(&bytes[..], "the memory").unwrap();
    stream.next().unwrap().unwrap();
    stream.event().unwrap()
}

fn misbehave(behaviour: &str, dir: &str, id: u64, is_kept: bool) {
    match behaviour {
        "right" => return,
        "slow" => return sleep(Duration::from_millis(2)),
        "noisy" => {
            let lines = "a line\n".repeat(20_000);
            stdout().write_all(lines.as_bytes()).unwrap();
            return;
        }
        _ if !id.is_multiple_of(10) => return,
        "poison" if id == 10 => {
            eprintln!("event 10 is poison");
            exit(9);
        }
        "poison" => return,
        _ => {}
    }
    // Only the first worker that has this event misbehaves.
    if File::create_new(format!("{dir}/event-{id}")).is_err() {
        return;
    }
    match behaviour {
        "unknown" => answer(&verdict(id + 1_000_000, is_kept)),
        "double" => answer(&[verdict(id, is_kept), verdict(id, is_kept)].concat()),
        "reorder" => answer(&[verdict(id + 3, is_kept), verdict(id, is_kept)].concat()),
        "half" => answer(&verdict(id, is_kept)[..7]),
        "garbage" => answer(&[0xa5; 48]),
        "megabytes" => (0..100).for_each(|_| answer(&[1; 100_000])),
        "verdict" => answer(&verdict(id, is_kept).iter().map(|byte| byte | 4).collect::<Vec<_>>()),
        "exit" => exit(1),
        "close" => {
            let _ = rustix::net::shutdown(stdin(), rustix::net::Shutdown::Both);
            sleep(Duration::from_secs(60));
        }
        "hang" => {
            let mut child = Command::new("sleep").arg("600").spawn().unwrap();
            fs::write(format!("{dir}/child"), child.id().to_string()).unwrap();
            child.wait().unwrap();
        }
        other => panic!("there is no behaviour {other}"),
    }
}
