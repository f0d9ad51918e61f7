use evb_core::units::Bytes;

use super::{BuilderArguments, configuration};

#[test]
fn every_point_is_a_configuration_that_evbd_admits() {
    for at_once in [0, 1] {
        let arguments = BuilderArguments {
            sources: 4,
            builders: 4,
            sources_at_once: at_once,
            slots: vec![8],
            sizes: vec![Bytes::kib(64)],
            duration: std::time::Duration::from_secs(1),
            output: crate::output::OutputArguments::default(),
        };
        let text = configuration(&arguments, Bytes::kib(64), 8).expect("loopback has free ports");
        let loaded = evb_config::read(&text, "test").unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.config.sources.len(), 4);
        assert_eq!(loaded.config.sources[0].max_fragment, Bytes::kib(16));
        assert_eq!(loaded.config.shaping.sources_at_once, (at_once > 0).then_some(at_once));
    }
}
