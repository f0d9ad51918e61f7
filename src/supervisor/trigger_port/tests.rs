use std::{future::poll_fn, time::Duration};

use evb_core::trigger::announcement::Asked;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{TriggerInput, TriggerPort};

#[tokio::test]
async fn who_asks_without_end_lets_others_ask_too() {
    let mut port = TriggerPort::open(&TriggerInput::Tcp("127.0.0.1:0".to_owned())).await.unwrap();
    let address = port.address().unwrap();
    let mut busy = TcpStream::connect(address).await.unwrap();
    busy.write_all(&b"1\n".repeat(10_000)).await.unwrap();
    let mut asked = 0;
    let mut next = async || match poll_fn(|cx| port.poll(cx)).await {
        Asked::Count(count) => count,
        Asked::Announced(announcement) => panic!("{announcement:?}"),
    };
    assert_eq!(next().await, 1);
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(b"7\n").await.unwrap();
    // The second client's line needs time to arrive.
    tokio::time::sleep(Duration::from_millis(100)).await;
    while next().await == 1 {
        asked += 1;
    }
    assert!(asked < 10, "after {asked} of the other's");
}

#[tokio::test]
async fn one_client_more_than_there_may_be_waits_and_is_then_served() {
    let mut port = TriggerPort::open(&TriggerInput::Tcp("127.0.0.1:0".to_owned())).await.unwrap();
    let address = port.address().unwrap();
    let mut next = async || match poll_fn(|cx| port.poll(cx)).await {
        Asked::Count(count) => count,
        Asked::Announced(announcement) => panic!("{announcement:?}"),
    };
    let mut clients = Vec::new();
    for count in 1..=super::CLIENTS as u64 {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(format!("{count}\n").as_bytes()).await.unwrap();
        assert_eq!(next().await, count);
        clients.push(client);
    }
    let mut one_more = TcpStream::connect(address).await.unwrap();
    one_more.write_all(b"1000\n").await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(200), next()).await.is_err(),
        "it waits in the kernel's queue"
    );
    clients.pop();
    assert_eq!(next().await, 1000);
}
