//! `evbd doctor`: reports the properties of this host that matter to an event builder, and
//! recommends changes.
//!
//! The module `gather` first reads and measures all facts; the module `judge` then derives verdicts
//! from them without further measurements. A fact that cannot be read is reported as unknown, with
//! the reason.

mod finding;
mod facts;
mod demand;
mod peers;
mod gather;
mod judge;
mod text;

use std::{net::IpAddr, path::PathBuf, process::ExitCode};

use evb_config::{Config, say, say_in_line};
use evb_net::host::kernel;
use serde_json::{Value, json};

use self::{
    finding::{Finding, Verdict},
    peers::Peers,
};
use crate::check;

/// Arguments of `evbd doctor`.
#[derive(clap::Args, Debug)]
pub struct DoctorArguments {
    /// The configuration to run on this host. With a configuration, verdicts say whether the host
    /// is good enough for this configuration.
    config: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Examine this network device instead of the devices that lead to the peers (repeatable).
    #[arg(long = "device", value_name = "DEV")]
    devices: Vec<String>,
    /// Another host to ping and to test departure times with, in addition to the hosts of the
    /// configuration (repeatable).
    #[arg(long = "peer", value_name = "ADDRESS")]
    peers: Vec<IpAddr>,
}

/// Exit code if a fact is too bad for the configuration.
const BAD: u8 = 1;

/// Runs `evbd doctor`.
pub fn main(arguments: &DoctorArguments) -> ExitCode {
    let path = arguments.config.as_deref();
    let config = match path.map(|path| check::load(path, arguments.json)).transpose() {
        Ok(loaded) => loaded.map(|loaded| loaded.config),
        Err(code) => return code,
    };
    let peers = peers::peers(config.as_ref(), &arguments.peers);
    let demand = config.as_ref().map(|config| demand::demand(config, &peers.here));
    let facts = match gather::gather(demand, &peers, &arguments.devices) {
        Ok(facts) => facts,
        Err(reason) => return check::refused(&reason),
    };
    let findings = judge::judge(&facts);
    let release = kernel::release().unwrap_or_else(|_| "unknown".to_owned());
    if arguments.json {
        say!("{:#}", report(arguments, &peers, &release, &findings));
    } else {
        let title = title(arguments, config.as_ref(), &peers, &release);
        say_in_line!("{title}\n{}", text::page(&findings));
    }
    if config.is_some() && worst(&findings) == Verdict::Bad { BAD.into() } else { ExitCode::SUCCESS }
}

fn worst(findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Unknown)
}

/// Returns the findings as a JSON object.
fn report(arguments: &DoctorArguments, peers: &Peers, release: &str, findings: &[Finding]) -> Value {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    json!({
        "configuration": arguments.config,
        "kernel": release,
        "roles": peers.here.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "verdict": worst(findings).words(),
        "counts": {
            "good": count(Verdict::Good),
            "could be better": count(Verdict::Better),
            "bad": count(Verdict::Bad),
            "unknown": count(Verdict::Unknown),
        },
        "grant_path_us": judge::grant_path(findings),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
    })
}

/// Returns the first line: which kernel, configuration and roles this is about.
fn title(arguments: &DoctorArguments, config: Option<&Config>, peers: &Peers, release: &str) -> String {
    let Some((config, path)) = config.zip(arguments.config.as_deref()) else {
        return format!(
            "kernel {release}; no evb configuration was given, so the verdicts do not say what a configuration needs: give it as in `evbd doctor evb.toml`"
        );
    };
    let roles = config.sources.len() + config.builders.len() + 1;
    format!("kernel {release}, for {}: {} of {roles} roles are here", path.display(), peers.here.len())
}
