use super::*;

fn flows(each: [(&str, u64, u64); 3]) -> Flows {
    each.into_iter().map(|(host, from, to)| (host.to_owned(), (from, to))).collect()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_builder_that_gets_nothing_is_not_whole_and_makes_a_pause() {
    let mut watch = Watch::new((1000.0, 1000.0), 1);
    let mut got = 0;
    for step in 0..40u64 {
        // The builder receives 1000 bytes per second, but nothing from 1 s to 2 s.
        got += if (10..20).contains(&step) { 0 } else { 100 };
        watch.look(ms(step * 100), flows([("b1", 0, got), ("s1", step * 100, 0), ("sup", 0, 0)]));
        match step {
            8 | 9 | 35 => assert!(watch.is_whole(), "{step}"),
            16 => assert!(!watch.is_whole()),
            _ => {}
        }
    }
    let pause = watch.take_pause();
    assert!((ms(700)..=ms(1300)).contains(&pause), "{pause:?}");
    assert_eq!(watch.take_pause(), ms(0));
}

#[test]
fn nothing_seen_is_not_whole() {
    assert!(!Watch::new((0.0, 0.0), 1).is_whole());
}
