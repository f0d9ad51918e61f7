use evb_core::alignment::{ClockError, ClockWrap};

use super::*;
use crate::{role::RoleError, source::Source};

/// The supervisor's address has no port, so that another error would follow.
#[tokio::test]
async fn a_clock_that_cannot_be_is_refused_before_the_source_connects() {
    let mut config = SourceConfig::new(SourceId::new(1), "nowhere");
    config.clock = Some(DetectorClock::new("125 MHz".parse().unwrap(), ClockWrap::Bits(65)));
    let error = Source::connect(config.clone()).await.unwrap_err();
    assert!(matches!(error, RoleError::Clock(ClockError::Wrap)), "{error}");
    assert!(error.to_string().contains("1 to 64 bits"), "{error}");
    config.clock = Some(DetectorClock::new("125 MHz".parse().unwrap(), ClockWrap::Bits(64)));
    let error = Source::connect(config).await.unwrap_err();
    assert!(!matches!(error, RoleError::Clock(_)), "{error}");
}
