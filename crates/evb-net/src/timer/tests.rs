use std::time::Duration;

use super::{MUCH_LATER, Timer};
use crate::clock::now;

#[tokio::test]
async fn it_expires_once_and_not_early() {
    let mut timer = Timer::new().unwrap();
    let at = now() + Duration::from_millis(5);
    timer.arm(Some(at));
    timer.expired().await;
    assert!(now() >= at);
    assert_eq!(timer.armed(), None);
    assert!(tokio::time::timeout(Duration::from_millis(20), timer.expired()).await.is_err());
}

#[tokio::test]
async fn a_time_in_the_past_expires_at_once_and_disarming_holds() {
    let mut timer = Timer::new().unwrap();
    timer.arm(Some(evb_core::time::Instant::ZERO));
    timer.expired().await;
    timer.arm(Some(now() + Duration::from_millis(5)));
    timer.arm(None);
    assert!(tokio::time::timeout(Duration::from_millis(20), timer.expired()).await.is_err());
}

#[tokio::test]
async fn re_arming_forgets_the_earlier_time() {
    let mut timer = Timer::new().unwrap();
    timer.arm(Some(now() + Duration::from_millis(1)));
    std::thread::sleep(Duration::from_millis(3));
    let at = now() + Duration::from_millis(15);
    timer.arm(Some(at));
    timer.expired().await;
    assert!(now() >= at);
}

#[tokio::test]
async fn armed_by_a_time_it_keeps_one_that_is_a_little_earlier() {
    let mut timer = Timer::new().expect("the system has timers");
    let soon = now() + Duration::from_secs(5);
    let (later, much_later) = (soon + MUCH_LATER, soon + MUCH_LATER * 2);
    timer.arm_by(Some(much_later));
    timer.arm_by(Some(soon));
    timer.arm_by(Some(later));
    timer.arm_by(None);
    assert_eq!(timer.armed(), Some(soon));
    // A timer that would expire far too early is set again, to save a useless wake-up.
    timer.arm_by(Some(much_later));
    assert_eq!(timer.armed(), Some(much_later));
}
