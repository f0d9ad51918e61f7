//! The kind of trigger that the command line of `evb-bench trigger` describes.

use std::time::Duration;

use clap::ValueEnum as _;
use evb_core::units::{Frequency, UnitError, parse_duration};

use super::times::TimesKind;

/// A kind of trigger with times of its own.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Triggers at equal intervals.
    Periodic,
    /// Triggers at exponentially distributed intervals.
    Poisson,
    /// Triggers at normally distributed intervals, cut at zero.
    Gaussian,
    /// Several triggers at once, at equal intervals.
    Burst,
    /// Triggers of superposed streams that are on and off in turn, for times with heavy tails.
    OnOff,
}

/// The arguments that describe the times of triggers.
#[derive(clap::Args, Debug)]
pub(super) struct KindArguments {
    /// The kind of trigger.
    #[arg(long, value_enum, default_value_t = Kind::Periodic)]
    kind: Kind,
    /// Mean rate of the triggers; with `burst`, the rate of bursts.
    #[arg(long, value_parser = frequency)]
    rate: Frequency,
    /// gaussian: the standard deviation of the intervals.
    #[arg(long, value_parser = parse_duration)]
    sigma: Option<Duration>,
    /// burst: the triggers of a burst.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    burst: Option<u32>,
    /// on-off: the mean time for which a stream stays on [default: 50 ms].
    #[arg(long, value_parser = parse_duration)]
    on: Option<Duration>,
    /// on-off: the mean time for which a stream stays off [default: 150 ms].
    #[arg(long, value_parser = parse_duration)]
    off: Option<Duration>,
    /// on-off: the shape of the Pareto distribution of both times, 1.05 to 10 [default: 1.5].
    #[arg(long)]
    shape: Option<f64>,
    /// on-off: the number of streams [default: 16].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    streams: Option<u16>,
}

fn frequency(text: &str) -> Result<Frequency, String> {
    let rate: Frequency = text.parse().map_err(|error: UnitError| {
        format!("{error}; a rate is above zero and has a unit, for example \"1 kHz\"")
    })?;
    if rate.hertz() <= 1e9 {
        Ok(rate)
    } else {
        Err(format!("{rate} is above 1 GHz, which no clock resolves"))
    }
}

impl KindArguments {
    /// Returns the kind of trigger; or the reason why the arguments do not describe one.
    pub(super) fn kind(&self) -> Result<TimesKind, String> {
        let word = self.word();
        for (belongs, option, given) in [
            (Kind::Gaussian, "--sigma", self.sigma.is_some()),
            (Kind::Burst, "--burst", self.burst.is_some()),
            (Kind::OnOff, "--on", self.on.is_some()),
            (Kind::OnOff, "--off", self.off.is_some()),
            (Kind::OnOff, "--shape", self.shape.is_some()),
            (Kind::OnOff, "--streams", self.streams.is_some()),
        ] {
            if given && belongs != self.kind {
                return Err(format!("{option} does not belong to --kind {word}"));
            }
        }
        if let Some(shape) = self.shape.filter(|shape| !TimesKind::SHAPES.contains(shape)) {
            return Err(format!("--shape is a number from 1.05 to 10, not {shape}"));
        }
        if [self.on, self.off].contains(&Some(Duration::ZERO)) {
            return Err("--on and --off are times above zero".to_owned());
        }
        let rate = self.rate;
        Ok(match self.kind {
            Kind::Periodic => TimesKind::Periodic { rate },
            Kind::Poisson => TimesKind::Poisson { rate },
            Kind::Gaussian => {
                let sigma =
                    self.sigma.ok_or("--kind gaussian needs --sigma, for example --sigma \"250 us\"")?;
                TimesKind::Gaussian { rate, sigma }
            }
            Kind::Burst => {
                let count = self.burst.ok_or("--kind burst needs --burst, the triggers of a burst")?;
                TimesKind::Burst { rate, count }
            }
            Kind::OnOff => TimesKind::OnOff {
                rate,
                on: self.on.unwrap_or(TimesKind::USUAL_ON),
                off: self.off.unwrap_or(TimesKind::USUAL_OFF),
                shape: self.shape.unwrap_or(TimesKind::USUAL_SHAPE),
                streams: self.streams.unwrap_or(TimesKind::USUAL_STREAMS),
            },
        })
    }

    /// Returns the name of the kind, as on the command line.
    fn word(&self) -> String {
        self.kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the mean number of triggers per second.
    pub(super) fn hertz(&self) -> f64 {
        self.rate.hertz() * f64::from(self.burst.unwrap_or(1))
    }

    /// Describes the triggers in a few words.
    pub(super) fn describe(&self) -> String {
        match self.burst {
            Some(count) => format!("bursts of {count} triggers at {}", self.rate),
            None => format!("{} triggers at {}", self.word(), self.rate),
        }
    }
}

#[cfg(test)]
mod tests;
