use evb_core::id::EventId;

use super::*;

/// Returns the sources of a configuration with the given `[[source]]` sections.
fn sources(sections: &str) -> Vec<SourceEntry> {
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = \"as-fast-as-possible\"\n{sections}\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n"
    );
    evb_config::read(&text, "test.toml").unwrap_or_else(|problems| panic!("{problems}")).config.sources
}

#[test]
fn a_generator_has_the_configured_clock_and_fault() {
    let clock = "clock = { rate = \"1 MHz\", bits = 20 }\n";
    let generator_of = |fault: &str, clock: &str| {
        let input = format!("input = {{ kind = \"generator\", size = \"1 kB\"{fault} }}\n");
        let sources = sources(&format!("[[source]]\nid = 3\n{input}{clock}"));
        let Input::Generator { size, fault, .. } = sources[0].input else { panic!("a generator") };
        (generator(&sources[0], size, fault, 1), generated(&sources).len())
    };
    let time = |generator: &mut Generator, event| generator.generate(EventId::new(event)).timestamp.ticks();
    let (mut plain, checked) = generator_of("", "");
    assert_eq!((time(&mut plain, 7), checked), (7, 1));
    let ((mut healthy, checked), (mut faulty, unchecked)) =
        (generator_of("", clock), generator_of(", fault = { slip = 2, at = 5 }", clock));
    assert_eq!((checked, unchecked), (1, 0), "builders do not check the content of a planted fault");
    assert_ne!(time(&mut healthy, 7), 7);
    assert!((1..3000).all(|event| time(&mut healthy, event) < 1 << 20));
    assert_eq!(time(&mut faulty, 4), time(&mut healthy, 4));
    assert_eq!(time(&mut faulty, 5), time(&mut healthy, 7));
}

#[test]
fn admission_control_knows_the_interval_of_generators() {
    assert_eq!(evb_config::GENERATED_INTERVAL, Generator::MEAN_INTERVAL);
}

#[tokio::test]
async fn the_next_input_of_a_source_waits_for_the_end_of_the_last_one() {
    let inputs = Inputs::default();
    let [one, two] = [1, 2].map(SourceId::new);
    let last = inputs.succeed(one, None).await;
    let _other = inputs.succeed(two, None).await;
    let waiting = inputs.clone();
    let next = tokio::spawn(async move { waiting.succeed(one, None).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!next.is_finished());
    drop(last);
    timeout(LAST_ENDS / 2, next).await.unwrap().unwrap();
}
