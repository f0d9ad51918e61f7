use std::time::Duration;

use clap::Parser as _;
use evb_core::units::Frequency;

use super::{KindArguments, TimesKind};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    kind: KindArguments,
}

fn kind(line: &str) -> Result<TimesKind, String> {
    let words = ["trigger"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map_err(|error| error.to_string())?.kind.kind()
}

#[test]
fn a_command_line_describes_each_kind() {
    let rate = Frequency::from_hertz(2000.0).expect("a rate");
    let sigma = Duration::from_micros(250);
    for (line, expected) in [
        ("", TimesKind::Periodic { rate }),
        ("--kind poisson", TimesKind::Poisson { rate }),
        ("--kind gaussian --sigma 250us", TimesKind::Gaussian { rate, sigma }),
        ("--kind burst --burst 7", TimesKind::Burst { rate, count: 7 }),
        (
            "--kind on-off",
            TimesKind::OnOff {
                rate,
                on: TimesKind::USUAL_ON,
                off: TimesKind::USUAL_OFF,
                shape: TimesKind::USUAL_SHAPE,
                streams: TimesKind::USUAL_STREAMS,
            },
        ),
        (
            "--kind on-off --on 1ms --off 2ms --shape 1.2 --streams 3",
            TimesKind::OnOff {
                rate,
                on: Duration::from_millis(1),
                off: Duration::from_millis(2),
                shape: 1.2,
                streams: 3,
            },
        ),
    ] {
        assert_eq!(kind(&format!("--rate 2kHz {line}")), Ok(expected), "{line}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused_with_a_reason() {
    for (line, reason) in [
        ("--rate 0Hz", "above zero"),
        ("--rate 0", "for example \"1 kHz\""),
        ("--rate 2000MHz", "above 1 GHz"),
        ("--rate 1kHz --kind gaussian", "needs --sigma"),
        ("--rate 1kHz --kind burst", "needs --burst"),
        ("--rate 1kHz --sigma 1us", "--sigma does not belong to --kind periodic"),
        ("--rate 1kHz --kind poisson --shape 1.5", "--shape does not belong"),
        ("--rate 1kHz --kind on-off --shape 1", "from 1.05 to 10"),
        ("--rate 1kHz --kind on-off --on 0s", "above zero"),
        ("--rate 1kHz --kind on-off --streams 0", "1..=1000"),
    ] {
        let refused = kind(line).expect_err(line);
        assert!(refused.contains(reason), "{line}: {refused}");
    }
}
