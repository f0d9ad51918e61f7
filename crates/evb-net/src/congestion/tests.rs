#![cfg(target_os = "linux")]

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::{
    control,
    host::sockets::congestion_control,
    lane::{LaneOptions, listen},
};

/// Returns the congestion control that the kernel reports for a connection whose options are
/// unchanged since it was accepted.
fn of(stream: &TcpStream) -> String {
    let name = SockRef::from(stream).tcp_congestion().unwrap();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

#[tokio::test]
async fn both_ends_of_a_lane_begin_with_what_was_asked_for() {
    // The congestion control "reno" is available and allowed on every system, and no system's
    // default.
    let asked = "reno";
    let options = LaneOptions { congestion_control: Some(asked.to_owned()), ..LaneOptions::default() };
    let listener = listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (opened, accepted) = tokio::join!(control::open(&address, None, Some(asked)), listener.accept());
    assert_eq!(of(&opened.unwrap()), asked);
    assert_eq!(of(&accepted.unwrap().0), asked);
}

/// Imitates a route with its own congestion control, which only root could set up.
#[tokio::test]
async fn a_connection_that_came_about_with_another_is_set_right() {
    let listener = control::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (opened, accepted) = tokio::join!(control::open(&address, None, None), listener.accept());
    for stream in [opened.unwrap(), accepted.unwrap().0] {
        let before = of(&stream);
        LaneOptions::default().apply(&stream).unwrap();
        assert_eq!(of(&stream), before, "nobody asked");
        let options = LaneOptions { congestion_control: Some("reno".to_owned()), ..LaneOptions::default() };
        options.apply(&stream).unwrap();
        assert_eq!(of(&stream), "reno");
    }
}

#[tokio::test]
async fn both_ends_of_a_control_connection_begin_with_cubic() {
    let got = congestion_control(Some("cubic")).unwrap();
    let listener = control::listen(&["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (opened, accepted) = tokio::join!(control::open(&address, None, None), listener.accept());
    assert_eq!(of(&opened.unwrap()), got);
    assert_eq!(of(&accepted.unwrap().0), got);
}
