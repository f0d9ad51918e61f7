use super::builder::Table;
use super::source::message;
use super::{Header, high_water_mark};
use crate::payload::Template;
use crate::role::{BuilderArguments, Work};

fn work(size: usize) -> Work {
    Work { table_bytes: 1 << 20, ..Work::of(size, 1.0) }
}

fn table(sources: u32, size: usize) -> Table {
    let bind = "127.0.0.1:0".to_owned();
    Table::new(&BuilderArguments { id: 1, bind, sources, builders: 1, work: work(size), launched: false })
}

fn fragment(event: u64, source: u32, size: u32) -> zmq::Message {
    message(Header { event, source, length: size, trigger_ns: 5 }, &Template::new())
}

#[test]
fn an_event_is_complete_with_the_last_source_in_any_order() {
    let mut table = table(3, 100);
    for (event, source) in [(2, 1), (1, 3), (1, 1), (2, 2), (1, 2)] {
        table.take(fragment(event, source, 100)).expect("a good fragment");
    }
    assert_eq!((table.report.complete, table.report.max_open_events), (1, 2));
    table.take(fragment(2, 3, 100)).expect("a good fragment");
    assert_eq!(table.report.complete, 2);
}

#[test]
fn duplicates_strangers_wrong_lengths_and_wrong_stamps_are_errors() {
    let mut table = table(2, 100);
    table.take(fragment(1, 1, 100)).expect("a good fragment");
    assert!(table.take(fragment(1, 1, 100)).is_err(), "twice");
    assert!(table.take(fragment(1, 0, 100)).is_err(), "source 0");
    assert!(table.take(fragment(1, 3, 100)).is_err(), "source 3 of 2");
    assert!(table.take(fragment(1, 2, 99)).is_err(), "99 bytes");
    assert!(table.take(zmq::Message::from(&[1, 2, 3][..])).is_err(), "3 bytes");
    let mut bad = fragment(1, 2, 100);
    bad[Header::LENGTH + 3] ^= 1;
    assert!(table.take(bad).is_err(), "stamp");
    assert_eq!(table.report.complete, 0);
}

#[test]
fn the_table_gives_up_at_its_limit() {
    let mut table = table(2, 1000);
    let outcome = (1..=1049).try_for_each(|event| table.take(fragment(event, 1, 1000)));
    assert!(outcome.is_err());
}

#[test]
fn large_and_small_messages_carry_the_same_payload() {
    for size in [16 * 1024, 16 * 1024 + 1] {
        let mut table = table(1, size as usize);
        table.take(fragment(7, 1, size)).expect("a good fragment");
        assert_eq!(table.report.complete, 1);
    }
}

#[test]
fn queues_are_bounded_in_bytes() {
    assert_eq!(high_water_mark(&work(1_000)), 1000);
    assert_eq!(high_water_mark(&work(1_000_000)), 67);
    assert_eq!(high_water_mark(&work(100_000_000)), 8);
    assert_eq!(high_water_mark(&Work { queue_bytes: 0, ..work(1_000_000) }), 1000);
}
