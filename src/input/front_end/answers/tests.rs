use evb_core::id::{EventId, RunId, RunNumber};
use tokio::{
    io::{AsyncReadExt as _, DuplexStream, duplex},
    time::timeout,
};

use super::*;

const RUN: ToldRun = ToldRun {
    id: RunId::new(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
    number: RunNumber::new(7),
    first: EventId::new(1),
    stage: RunStage::Running,
    is_over: false,
};

/// Reads a message: its kind, run number, first byte of the run id, and value.
async fn message(front_end: &mut DuplexStream) -> (u32, u32, u8, u64) {
    let mut bytes = [0; MESSAGE];
    front_end.read_exact(&mut bytes).await.unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(bytes[8..24], RUN.id.to_bytes());
    (number(0), number(4), bytes[8], u64::from_le_bytes(bytes[24..].try_into().unwrap()))
}

#[tokio::test]
async fn a_front_end_is_told_of_the_run_and_of_its_fragments() {
    let (mut front_end, socket) = duplex(1000);
    let (run, told) = watch::channel(ToldRun { stage: RunStage::Waiting, ..RUN });
    let accepted = AtomicU64::new(0);
    let mut answers = Answers::new(socket);
    {
        let hear = async {
            assert!(timeout(5 * PERIOD, front_end.read_u8()).await.is_err(), "nothing before the start");
            run.send_replace(RUN);
            assert_eq!(message(&mut front_end).await, (1, 7, 1, 1));
            accepted.store(40, Ordering::Relaxed);
            assert_eq!(message(&mut front_end).await, (3, 7, 1, 40));
            run.send_replace(ToldRun { stage: RunStage::Stopped, ..RUN });
            assert_eq!(message(&mut front_end).await, (2, 7, 1, 0));
            assert!(timeout(5 * PERIOD, front_end.read_u8()).await.is_err(), "nothing is said twice");
        };
        tokio::select! {
            () = answers.tell(told, Some(&accepted)) => unreachable!(),
            () = hear => {}
        }
    }
    accepted.store(50, Ordering::Relaxed);
    answers.finish(&ToldRun { stage: RunStage::Stopped, ..RUN }, &accepted).await.unwrap();
    assert_eq!(message(&mut front_end).await, (3, 7, 1, 50));
    assert_eq!(front_end.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
}

/// The front end of a run under way that has stopped meanwhile is told both.
#[tokio::test]
async fn who_does_not_read_gets_the_latest_state_and_no_more() {
    let (mut front_end, socket) = duplex(MESSAGE + 5);
    let (run, told) = watch::channel(RUN);
    let accepted = AtomicU64::new(0);
    let mut answers = Answers::new(socket);
    for _ in 0..10 {
        accepted.fetch_add(1, Ordering::Relaxed);
        // The call is dropped within a message.
        let tell = answers.tell(told.clone(), Some(&accepted));
        assert!(timeout(2 * PERIOD, tell).await.is_err());
    }
    assert!(answers.unsent.len() <= 3 * MESSAGE, "{}", answers.unsent.len());
    run.send_replace(ToldRun { stage: RunStage::Stopped, ..RUN });
    let hear = async {
        assert_eq!(message(&mut front_end).await, (1, 7, 1, 1));
        let mut all = vec![message(&mut front_end).await, message(&mut front_end).await];
        while all.iter().all(|(_, _, _, count)| *count != 10) {
            all.push(message(&mut front_end).await);
        }
        all
    };
    let all = tokio::select! {
        () = answers.tell(told, Some(&accepted)) => unreachable!(),
        all = hear => all,
    };
    assert!(all.len() <= 3 && all.contains(&(2, 7, 1, 0)), "{all:?}");
}
