use std::time::Duration;

use evb_needs::{Missing, granted};

use super::{Echo, Pinger, TurnStages, checksum, loopback_turns};

#[test]
fn the_checksum_of_the_rfc() {
    // RFC 1071, section 3: the words sum up to ddf2.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    assert_eq!(checksum(&[0xff]), !0xff00);
}

#[test]
fn this_host_answers_itself_and_nobody_else_does() {
    for home in ["127.0.0.1", "::1"] {
        let pinger = Pinger::new(home.parse().unwrap());
        let missing = |error| Missing::new(format_args!("leave to ping {home}")).because(error);
        let Some(mut pinger) = granted(pinger.map_err(missing)) else { continue };
        for size in [0, 100, 1500, 9000] {
            let echo = pinger.ping(size, Duration::from_secs(2)).unwrap();
            assert!(matches!(echo, Echo::Answered(time) if !time.is_zero()), "{home}, {size}: {echo:?}");
        }
        // A packet of 70 000 bytes exceeds the MTU of every loopback device.
        assert_eq!(pinger.ping(70_000, Duration::from_millis(10)).unwrap(), Echo::TooLarge, "{home}");
    }
}

#[test]
fn turns_take_time() {
    let turns = loopback_turns(20).unwrap();
    assert_eq!(turns.len(), 20);
    assert!(turns.iter().all(|turn| !turn.whole.is_zero()));
    let told: Vec<_> = turns.iter().filter_map(|turn| Some((turn.stages?, turn.whole))).collect();
    assert!(!told.is_empty() || !cfg!(target_os = "linux"), "{turns:?}");
    for (stages, whole) in told {
        let sum = stages.write + stages.far_wake_up + stages.answer + stages.wake_up;
        // Stages and whole come from different clocks, one of which is slewed, and which are not
        // read at the same instant.
        assert!(sum < whole * 2 + Duration::from_millis(1), "{stages:?} of {whole:?}");
    }
}

#[test]
fn a_turn_is_the_sum_of_its_stages() {
    let stages = TurnStages::between([100, 103, 110, 115, 126]).unwrap();
    let us = [stages.write, stages.far_wake_up, stages.answer, stages.wake_up].map(|time| time.as_nanos());
    assert_eq!(us, [3, 7, 5, 11]);
    assert_eq!(TurnStages::between([100, 103, 102, 115, 126]), None, "the clock was set");
}
