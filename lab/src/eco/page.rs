//! Checks the control page in a real browser, in a network with nothing but loopback, so that any
//! request to another host fails and is noticed.

#[cfg(feature = "browser")]
mod boards;
#[cfg(feature = "browser")]
mod browser;
#[cfg(feature = "browser")]
mod charts;
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
use lab_base::{
    alone::{IP, UNSHARE},
    needs::Need,
    setting::Setting,
};

pub(crate) const NEEDS: &[Need] = &[
    Need { program: "chromium", package: "chromium" },
    Need { program: "chromedriver", package: "chromium-driver" },
    UNSHARE,
    IP,
];

/// Time limit of the whole test; after it, all its processes are killed.
#[cfg(feature = "browser")]
const LIMIT: std::time::Duration = std::time::Duration::from_secs(400);

#[derive(Args)]
pub(crate) struct PageArgs {
    /// Length of the run without faults before its screenshot is taken, in seconds.
    #[arg(long, default_value_t = 15)]
    good: u64,
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Fails, because this program was built without the feature `browser`, whose WebDriver client
/// needs many crates.
#[cfg(not(feature = "browser"))]
pub(super) fn run(_setting: &Setting, args: &PageArgs) -> Result<u8> {
    anyhow::bail!(
        "this program has no client of browsers; start `cargo xtask eco page --good {}`, which builds it with one",
        args.good
    )
}

#[cfg(feature = "browser")]
pub(super) fn run(setting: &Setting, args: &PageArgs) -> Result<u8> {
    if !args.inside {
        let mut arguments = arguments(setting, args);
        arguments.push("--inside".to_owned());
        return lab_base::alone::run(&arguments, LIMIT);
    }
    course::run(setting, std::time::Duration::from_secs(args.good)).map(|holds| u8::from(!holds))
}

/// Returns the arguments with which this program runs the page test again.
#[cfg(feature = "browser")]
fn arguments(setting: &Setting, args: &PageArgs) -> Vec<String> {
    let (evbd, out) = (setting.evbd.to_string_lossy(), setting.out.to_string_lossy());
    let good = args.good.to_string();
    ["eco", "page", "--evbd", &evbd, "--out", &out, "--good", &good].map(ToOwned::to_owned).into()
}
