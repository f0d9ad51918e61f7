//! Readout that pushes a trigger counter in place of event ids.

use evb::{
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    role::RoleError,
    source::{CounterError, CounterStart, Readout, Source, SourceConfig, TriggerCounter},
};

use crate::support::{assert_exact, begin, content, plan};

#[tokio::test]
async fn a_program_pushes_a_counter_that_wraps() {
    const FIRST: u64 = 65_530;
    let mut system = begin(plan(1, 1, 50)).await;
    let id = SourceId::new(1);
    let counter = TriggerCounter { first: CounterStart::At(FIRST), ..TriggerCounter::new(16) };
    let config = SourceConfig { counter: Some(counter), ..SourceConfig::new(id, &system.address) };
    let source = Source::connect(config).await.expect("the source joins");
    for event in 1..=50 {
        let value = EventId::new((FIRST + event - 1) & 0xffff);
        let payload = content(id, EventId::new(event), 100 + event as usize % 97);
        source.push(Fragment::new(value, Timestamp::new(event), payload)).await.expect("the run is on");
    }
    system.sources.push(source);
    let (built, report) = system.finish().await;
    assert_exact(&built, 1, 100);
    assert_eq!((built.len(), report.exit_code), (50, 0), "{}", report.verdict);
}

#[tokio::test]
async fn a_counter_that_cannot_be_is_refused() {
    struct Nothing;

    impl Readout for Nothing {
        fn fragment(&mut self, _: EventId) -> Option<Fragment> {
            None
        }
    }

    let config = |bits| SourceConfig {
        counter: Some(TriggerCounter::new(bits)),
        ..SourceConfig::new(SourceId::new(1), "")
    };
    let refused = Source::connect(config(7)).await;
    assert!(matches!(refused, Err(RoleError::Counter(CounterError::Bits))), "{refused:?}");
    let refused = Source::on_demand(config(16), Nothing).await;
    assert!(matches!(refused, Err(RoleError::CounterOnDemand)), "{refused:?}");
}
