use super::*;

const SHAPE: Shape = Shape { sources: 8, builders: 1, rate: 1_000_000_000, port_buffer: 128 * 1024 };

#[test]
fn the_configuration_is_toml_with_every_role() {
    for mode in [Mode::Credit, Mode::Sequential, Mode::Window(14_000), Mode::None] {
        let system = System::new(mode, 64_000).trigger(Trigger::Periodic(146.99)).slots(3).warn();
        let table: toml::Table = system.config(SHAPE, 2.5).unwrap().parse().unwrap();
        assert_eq!(table["source"].as_array().unwrap().len(), 8);
        assert_eq!(table["builder"][0]["listen"].as_str(), Some("10.77.2.1:7101"));
        assert_eq!(table["supervisor"]["trigger"]["rate"].as_str(), Some("146.990 Hz"));
        assert_eq!(table["run"]["duration"].as_str(), Some("2.5 s"));
        assert_eq!(table["network"]["admission"].as_str(), Some("warn"));
        assert_eq!(table["network"]["port_buffer"].as_str(), Some("131072 B"));
    }
}

#[test]
fn a_gigabit_carries_956_of_payload() {
    assert_eq!((port_capacity(SHAPE) / 1e6).round(), 956.0);
}

#[test]
fn wire_time_counts_every_frame() {
    // 45 frames of 66 bytes on top of 64 000, eight times, at 8 ns a byte.
    let system = System::new(Mode::Credit, 64_000);
    assert!((system.wire_time(SHAPE) - 8.0 * 66_970.0 * 8e-9).abs() < 1e-9);
}

#[test]
fn all_windows_fit_into_the_port() {
    for sources in [1, 8, 32] {
        let shape = Shape { sources, ..SHAPE };
        let window = safe_window(shape) as f64;
        let frames = window + (window / SEGMENT).ceil() * FRAME_OVERHEAD;
        assert!(frames * f64::from(sources) <= shape.port_buffer as f64, "{sources}");
    }
}
