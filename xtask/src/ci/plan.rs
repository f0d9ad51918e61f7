//! The steps of CI, and what each step requires of the machine.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use toml::Table;

use super::step::Step;
use crate::{api, fuzz, instructions};

/// The command in the README that runs the tests.
const README_TEST: &str = "cargo test --workspace";
/// The command in the README that builds the first events.
const README_RUN: &str = "cargo run --release -p evb-daemon -- run examples/quickstart.toml";
/// Arguments that select the benches which need no other tool than cargo.
const BENCHES: &str = "--bench machines --bench shaper --bench supervisor --bench loopback --bench push";
/// Arguments of cargo-hack for every set of features that users can choose.
const POWERSET: &str = "--feature-powerset --exclude-features default,fuzzing,pcap --no-dev-deps";
/// Arguments that select the tests of a build without features.
const LEAN: &str = "--test lean --test life_cycle";
/// Manifest of the fuzz package, which like the next ones does not belong to the workspace.
const FUZZ: &str = "fuzz/Cargo.toml";
const PEERS: &str = "benches/peers/Cargo.toml";
const OUTSIDE: &str = "examples/outside/Cargo.toml";
const BINDINGS: &str = "bindings/c/Cargo.toml";
const PYTHON: &str = "bindings/python/Cargo.toml";
const EXPORTS: &str = "bindings/exports/Cargo.toml";
/// Folder of the build whose instructions are counted. It is a folder of its own, because the
/// tutorials would wait for a slow build in the folder of the release build.
const COUNTED: &str = "target/instructions";
/// Variable that names cargo's folder.
const TARGET: &str = "CARGO_TARGET_DIR";
/// Time for each fuzz target, in seconds: enough to find faults that almost any input triggers.
const FUZZ_SECONDS: u64 = 3;

/// Returns all steps in their order: first the commands of the README, then those that need a
/// release build.
///
/// Most steps either wait or compile. So steps that compile run beside those that wait, in the
/// processor time that these leave. What is measured on a quiet machine runs alone.
///
/// Steps that need third-party programs are skipped if these are missing, unless `required` is
/// true. `lab` is the path of the program `lab`, if it is already built.
pub(crate) fn steps(required: bool, lab: Option<&Path>) -> Result<Vec<Step>> {
    let root = checkout::root();
    let mut steps = vec![
        Step::new("README names the test", 10, &in_readme(README_TEST)).quick(),
        Step::new("README names the run", 10, &in_readme(README_RUN)).quick(),
        Step::new("tests build", 1200, &format!("{README_TEST} --no-run")).quick(),
        Step::new("tests", 1200, README_TEST).quick(),
        Step::xtask("tests, bare", 900, if required { "bare --require" } else { "bare" }).then(),
    ];
    steps.extend(of_the_source(&root)?);
    steps.extend(feature_sets(&root));
    steps.extend(quickstart(&root)?);
    steps.extend(networks(lab));
    steps.extend(waiting(required, lab));
    // This build and that of the fuzz targets have folders of their own, so nothing waits for them.
    let counted = "cargo bench -p evb --bench instructions --no-run";
    let build = Step::new("instructions build", 900, counted).environment(TARGET, COUNTED);
    steps.push(build.unless(instructions::lacks()).beside().at_low_priority());
    steps.extend(beside_others(required, lab));
    steps.push(fuzz(&root).beside().at_low_priority());
    // Each of the last steps builds in a folder of its own, and often waits for a single crate.
    let pages = if required { "tutorial --require" } else { "tutorial" };
    steps.push(Step::xtask("tutorials", 1500, pages));
    let site = if required { "site --require" } else { "site" };
    // The time limit is generous, because mdbook may have to be built.
    steps.push(Step::xtask("site", 600, site).then());
    steps.extend(outside_tests(&root));
    // The time limit is generous, because the first build takes minutes.
    steps.push(Step::xtask("seeds", 900, "seeds --count 100").then().quick());
    // Each bench runs once, as built by the tests, only to show that it runs.
    let benches = format!("cargo test --workspace {BENCHES}");
    steps.push(Step::new("benches run", 600, &benches).unless(no_benches(&root)).beside().at_low_priority());
    steps.push(peers(&root).then().at_low_priority());
    // Valgrind makes programs so slow that beside others their handshakes would run out of time.
    let count = Step::xtask("instructions", 300, "instructions").environment(TARGET, COUNTED);
    steps.push(count.unless(instructions::lacks()));
    Ok(steps)
}

/// Returns the steps that check the source, and the release build, which run beside the tests.
fn of_the_source(root: &Path) -> Result<Vec<Step>> {
    let steps = vec![
        Step::new("release build", 900, "cargo build --release -p evb-daemon -p evb-bench").beside().quick(),
        // In this order, `cargo test` finds the folder of the debug build unlocked.
        Step::xtask("tidy", 60, "tidy").beside().quick(),
        Step::new("format", 60, "cargo fmt --all --check").then().quick(),
        Step::new("clippy", 600, "cargo clippy --workspace --all-targets -- -D warnings").then().quick(),
        Step::new("documentation", 600, "cargo doc --workspace --no-deps --document-private-items")
            .environment("RUSTDOCFLAGS", "-D warnings")
            .then()
            .quick(),
        msrv(root)?.then(),
        Step::xtask("package", 600, "package").then(),
        Step::xtask("public API", 300, "api").unless(api::lacks()).then(),
        Step::new("outside", 300, &format!("cargo run --target-dir target --manifest-path {OUTSIDE}")).then(),
        Step::new("dependencies", 60, "cargo deny check bans licenses sources")
            .unless(lacks("deny"))
            .then()
            .quick(),
    ];
    Ok(steps.into_iter().chain(forms(root).map(Step::then)).map(Step::at_low_priority).collect())
}

/// Returns steps that compile with all sets of features, and what users get outside of the
/// workspace; they follow the checks of the source.
fn feature_sets(root: &Path) -> Vec<Step> {
    let features = format!("cargo hack check -p evb -p evb-net {POWERSET}");
    let mut steps = vec![
        Step::new("features", 600, &features).unless(lacks("hack")).then(),
        Step::new("lean", 600, &format!("cargo test -p evb --no-default-features {LEAN}")).then(),
    ];
    steps.extend(clippy_outside(root).map(Step::then));
    steps.into_iter().map(Step::at_low_priority).collect()
}

/// Returns a command that searches the README for `command`. The pattern has a dot instead of each
/// blank, because a blank in a step's command line separates arguments.
fn in_readme(command: &str) -> String {
    format!("grep -q -e {} README.md", command.replace(' ', "."))
}

/// Returns a step that checks the workspace with the oldest supported compiler (`rust-version`), if
/// it is installed; otherwise with the current compiler, which the name of the step then states.
fn msrv(root: &Path) -> Result<Step> {
    let manifest: Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let promised = manifest["workspace"]["package"]["rust-version"].as_str().context("no rust-version")?;
    let installed = checkout::said("rustup", &["toolchain", "list"]).unwrap_or_default();
    let toolchain = toolchain(promised, &installed);
    let current = checkout::said("rustc", &["--version"]).unwrap_or_default();
    let (name, cargo) = match toolchain {
        Some(toolchain) => (format!("MSRV {promised}"), format!("cargo +{toolchain}")),
        None => (format!("MSRV {promised} (not installed: current)"), "cargo".to_owned()),
    };
    let step = Step::new(&name, 600, &format!("{cargo} check --workspace --all-targets"));
    Ok(step.unless(
        is_of(&current, promised).then(|| "it is the current compiler: clippy has checked".to_owned()),
    ))
}

/// Returns true if `said`, the output of `rustc --version`, states this version.
fn is_of(said: &str, version: &str) -> bool {
    let own = said.split_whitespace().nth(1).unwrap_or_default();
    own == version || own.strip_prefix(version).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the version name of the installed toolchain for a version such as `1.95`; the toolchain
/// may be named `1.95` or `1.95.0`, followed by its target triple.
fn toolchain(promised: &str, installed: &str) -> Option<String> {
    let mut names = installed.lines().filter_map(|line| line.split_whitespace().next());
    let name = names.find(|name| {
        let version = name.split('-').next().unwrap_or_default();
        version == promised || version.strip_prefix(promised) == Some(".0")
    })?;
    Some(name.split('-').next().unwrap_or_default().to_owned())
}

/// Returns steps that execute the README's run command twice, and verify the event files of both
/// runs.
fn quickstart(root: &Path) -> Result<Vec<Step>> {
    const CONFIG: &str = "examples/quickstart.toml";
    let skip = absent(root, CONFIG);
    let mut steps = vec![
        Step::new("quickstart", 120, README_RUN).unless(skip.clone()).quick(),
        Step::new("quickstart again", 120, README_RUN).unless(skip).quick(),
    ];
    if let Ok(text) = fs::read_to_string(root.join(CONFIG)) {
        let config: Table = text.parse().with_context(|| CONFIG.to_owned())?;
        let paths = sink_paths(&config);
        let verify = format!("target/release/evbd verify {}", paths.join(" "));
        steps.push(Step::new("quickstart verified", 60, &verify).quick());
    }
    Ok(steps)
}

/// Returns the folders into which the builders of a configuration write, each folder once.
fn sink_paths(config: &Table) -> Vec<String> {
    let builders = config.get("builder").and_then(|b| b.as_array()).map(Vec::as_slice).unwrap_or_default();
    let mut paths: Vec<String> =
        builders.iter().filter_map(|b| b.get("sink")?.get("path")?.as_str().map(ToOwned::to_owned)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns a step that runs the program `lab`, whose exit code tells if this machine lacks a
/// requirement.
fn of_lab(lab: Option<&Path>, name: &str, seconds: u64, line: &str) -> Step {
    let step = Step::xtask(name, seconds, line);
    if let Some(lab) = lab { step.program(lab) } else { step }
}

/// Returns the steps of the network lab and of User-Mode Linux whose bounds need a quiet machine.
fn networks(lab: Option<&Path>) -> [Step; 4] {
    let given = lab.map_or_else(String::new, |lab| format!("--lab {} ", lab.display()));
    let kernel = format!("uml {given}--limit 150 --test kernel -- --nocapture");
    [
        scenario(lab, "lab smoke", 300, "smoke"),
        scenario(lab, "lab chaos, short", 400, "chaos --short --faults 15"),
        scenario(lab, "lab pressure, short", 300, "pressure --short"),
        Step::xtask("kernel", 400, &kernel).environment("EVB_KERNEL_TESTS", "required").noisy(),
    ]
}

/// Returns a step that runs a scenario of the network lab.
fn scenario(lab: Option<&Path>, name: &str, seconds: u64, arguments: &str) -> Step {
    of_lab(lab, name, seconds, &format!("lab {arguments} --evbd target/release/evbd")).noisy()
}

/// Returns a step that tests evb together with third-party programs, such as Prometheus and Slurm.
fn eco(required: bool, lab: Option<&Path>, part: &str, seconds: u64) -> Step {
    let line = format!("eco {part} --evbd target/release/evbd");
    let step = of_lab(lab, &format!("eco {part}"), seconds, &line).noisy();
    if required { step.required() } else { step }
}

/// Returns steps that wait, so that others can compile beside them: for a slow line, and for
/// processes.
fn waiting(required: bool, lab: Option<&Path>) -> [Step; 4] {
    [
        scenario(lab, "lab wan, short", 300, "wan --short"),
        eco(required, lab, "here", 240).then(),
        eco(required, lab, "thousands --short", 300).then(),
        eco(required, lab, "page", 600).then(),
    ]
}

/// Returns the other steps with third-party programs, and the studies.
fn beside_others(required: bool, lab: Option<&Path>) -> Vec<Step> {
    let step = |part: &str, seconds| eco(required, lab, part, seconds);
    vec![
        // They wait for leases, for scrapes, and for delays of alerts.
        step("slurm", 300),
        step("metrics", 300).beside(),
        step("alerts", 400).beside(),
        step("export --quick", 600).beside().at_low_priority(),
        step("file-cpp --files 1000", 900).then().at_low_priority(),
        // Short studies mostly wait. None of their bounds that needs a quiet machine counts here.
        studies(required, lab),
        step("c", 900).beside().at_low_priority(),
        step("python --quick", 1200).then().at_low_priority(),
        // It takes the wheel's tools and compiled crates from the step python.
        step("nats --kills 5 --quick", 300).then().at_low_priority(),
        step("kafka --kills 5 --quick", 300).then().at_low_priority(),
        step("upload --kills 6 --quick", 300).then().at_low_priority(),
        step("epics --quick", 300).then().at_low_priority(),
        step("boards --events 2000", 300).then().at_low_priority(),
        // It takes what the steps file-cpp, export and python have built.
        step("directories --count 20 --seed 1 --quick", 300).then().at_low_priority(),
        step("packages --quick", 1500).beside().at_low_priority(),
    ]
}

/// Returns the step that runs the short forms of all studies.
fn studies(required: bool, lab: Option<&Path>) -> Step {
    let lab = lab.map_or_else(String::new, |lab| format!(" --lab {}", lab.display()));
    let require = if required { " --require" } else { "" };
    Step::xtask("studies", 1200, &format!("studies --quick --evbd target/release/evbd{lab}{require}")).noisy()
}

/// Returns steps that run clippy on the packages outside of the workspace that users get.
fn clippy_outside(root: &Path) -> [Step; 3] {
    let packages = [("bindings clippy", BINDINGS), ("python clippy", PYTHON), ("exports clippy", EXPORTS)];
    packages.map(|(name, manifest)| {
        let line = format!(
            "cargo clippy --manifest-path {manifest} --target-dir target --all-targets -- -D warnings"
        );
        Step::new(name, 400, &line).unless(absent(root, manifest))
    })
}

/// Returns the tests of `evb-export`, and those that build the packages outside of the workspace to
/// send them signals.
fn outside_tests(root: &Path) -> [Step; 2] {
    let exports = format!("cargo test --target-dir target --manifest-path {EXPORTS}");
    let signals = "cargo test -p evb-daemon --test signal_table -- outside";
    [
        Step::new("exports tests", 900, &exports).unless(absent(root, EXPORTS)).then().at_low_priority(),
        Step::new("signals outside", 900, signals).environment("EVB_OUTSIDE", "1").then(),
    ]
}

/// Returns steps that check the code format of the packages outside of the workspace.
fn forms(root: &Path) -> [Step; 6] {
    let packages = [
        ("fuzz format", FUZZ),
        ("peers format", PEERS),
        ("outside format", OUTSIDE),
        ("bindings format", BINDINGS),
        ("python format", PYTHON),
        ("exports format", EXPORTS),
    ];
    packages.map(|(name, manifest)| {
        Step::new(name, 60, &format!("cargo fmt --manifest-path {manifest} --check"))
            .unless(absent(root, manifest))
    })
}

/// Returns a step that runs all fuzz targets and prints a table of their results.
fn fuzz(root: &Path) -> Step {
    let count = fuzz::targets(root).len() as u64;
    let skip = (count == 0).then(|| "there is no fuzz/fuzz_targets".to_owned());
    // The time limit is generous, because the first build takes minutes.
    let seconds = 900 + count * (FUZZ_SECONDS + 5);
    // The build takes longer than the search, so it optimizes little.
    Step::xtask("fuzz", seconds, &format!("fuzz --jobs 2 --seconds {FUZZ_SECONDS}"))
        .environment("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .unless(skip.or_else(fuzz::lacks))
}

/// Returns a step that tests `benches/peers`; skipped without a C++ compiler. The comparison of evb
/// with these programs is a command of its own, because its rates mean nothing here.
fn peers(root: &Path) -> Step {
    let compiler = checkout::said("c++", &["--version"])
        .is_none()
        .then(|| "there is no C++ compiler for ZeroMQ: install g++ or clang".to_owned());
    let skip = absent(root, PEERS).or(compiler);
    let line = format!("cargo test --target-dir target --manifest-path {PEERS}");
    Step::new("peers tests", 900, &line).unless(skip)
}

/// Returns the reason to skip a step that needs that command of cargo, if it is not installed.
fn lacks(command: &str) -> Option<String> {
    let is_there = checkout::said("cargo", &[command, "--version"]).is_some();
    (!is_there).then(|| format!("there is no cargo-{command}: cargo install --locked cargo-{command}"))
}

fn no_benches(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join("benches")).ok()?;
    let any = entries.flatten().any(|entry| entry.path().extension().is_some_and(|e| e == "rs"));
    (!any).then(|| "there are no benches".into())
}

fn absent(root: &Path, path: &str) -> Option<String> {
    (!root.join(path).exists()).then(|| format!("there is no {path}"))
}

#[cfg(test)]
mod tests;
