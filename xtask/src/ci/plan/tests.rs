use super::*;

#[test]
fn every_part_of_the_house_is_checked() {
    let lines: Vec<String> = steps(false, None).unwrap().iter().map(Step::line).collect();
    for needed in [
        README_TEST,
        " bare",
        "fmt --all --check",
        "clippy --workspace",
        "cargo doc",
        " check --workspace",
        "tidy",
        " package",
        " site",
        "lab smoke",
        "lab pressure --short",
        "fuzz --jobs 2 --seconds",
        "instructions",
        "eco page",
        "eco here",
        "eco slurm",
        "eco thousands",
        "eco metrics",
        "eco alerts",
        "cargo test --target-dir target --manifest-path bindings/exports/Cargo.toml",
        "signal_table",
    ] {
        assert!(lines.iter().any(|line| line.contains(needed)), "{needed}: {lines:#?}");
    }
}

#[test]
fn the_quick_part_has_what_must_hold_before_every_commit() {
    let quick: Vec<String> =
        steps(false, None).unwrap().iter().filter(|step| step.is_quick).map(Step::line).collect();
    for needed in
        [README_TEST, README_RUN, "fmt", "clippy --workspace", "cargo doc", "tidy", "cargo deny", "seeds"]
    {
        assert!(quick.iter().any(|line| line.contains(needed)), "{needed}: {quick:#?}");
    }
    assert!(quick.len() < 20, "{quick:#?}");
}

#[test]
fn the_promised_toolchain_is_found() {
    let installed = "stable-x86_64-unknown-linux-gnu (active, default)\n1.95.0-x86_64-unknown-linux-gnu\n";
    assert_eq!(toolchain("1.95", installed).as_deref(), Some("1.95.0"));
    assert_eq!(toolchain("1.95.0", installed).as_deref(), Some("1.95.0"));
    assert_eq!(toolchain("1.9", installed), None);
    assert_eq!(toolchain("1.95", "1.95.1-x86_64-unknown-linux-gnu"), None);
}

#[test]
fn the_compiler_in_use_may_be_the_promised_one() {
    assert!(is_of("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
    assert!(is_of("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"));
    assert!(!is_of("rustc 1.96.0 (0123456 2026-06-01)", "1.95") && !is_of("rustc 1.950.0", "1.95"));
    assert!(!is_of("", "1.95"));
}

#[test]
fn sinks_are_found_once() {
    let config = "[[builder]]\nsink = { kind = 'file', path = 'out/q' }\n[[builder]]\nsink = { kind = 'file', path = 'out/q' }\n
                  [[builder]]\nsink = 'null'";
    assert_eq!(sink_paths(&config.parse().unwrap()), ["out/q"]);
}
