//! Checks the page in a real browser, with nothing but loopback, so that any request to another
//! host fails and is noticed.

#[cfg(feature = "browser")]
mod browser;
#[cfg(feature = "browser")]
mod figures;
#[cfg(feature = "browser")]
mod house;
#[cfg(feature = "browser")]
mod pictures;
#[cfg(feature = "browser")]
mod course;

use anyhow::Result;
use clap::Args;

use super::{
    Setting,
    alone::{IP, UNSHARE},
    needs::Need,
};

pub(crate) const NEEDS: &[Need] = &[
    Need { program: "chromium", package: "chromium" },
    Need { program: "chromedriver", package: "chromium-driver" },
    UNSHARE,
    IP,
];

/// Time after which everything is ended.
#[cfg(feature = "browser")]
const LIMIT: std::time::Duration = std::time::Duration::from_secs(400);

#[derive(Args)]
pub(crate) struct PageArgs {
    /// Length of the good run before its picture is taken, in seconds.
    #[arg(long, default_value_t = 15)]
    good: u64,
    /// Used internally: this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Runs the part in a program that is built with the browser's client. The client needs many crates
/// that nothing else does, so it is built on demand.
#[cfg(not(feature = "browser"))]
pub(super) fn run(setting: &Setting, args: &PageArgs) -> Result<u8> {
    use anyhow::Context as _;

    anyhow::ensure!(!args.inside, "this is not the program that was built with the browser's client");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["run", "--quiet", "--package", "xtask", "--features", "browser", "--"]);
    command.args(arguments(setting, args)).current_dir(crate::repo::root());
    let status = command.status().context("cargo does not start")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(feature = "browser")]
pub(super) fn run(setting: &Setting, args: &PageArgs) -> Result<u8> {
    if !args.inside {
        let mut arguments = arguments(setting, args);
        arguments.push("--inside".to_owned());
        return super::alone::run(&arguments, LIMIT);
    }
    course::run(setting, std::time::Duration::from_secs(args.good)).map(|holds| u8::from(!holds))
}

/// Returns the arguments for starting this program again.
fn arguments(setting: &Setting, args: &PageArgs) -> Vec<String> {
    let (evbd, out) = (setting.evbd.to_string_lossy(), setting.out.to_string_lossy());
    let good = args.good.to_string();
    ["eco", "page", "--evbd", &evbd, "--out", &out, "--good", &good].map(ToOwned::to_owned).into()
}
