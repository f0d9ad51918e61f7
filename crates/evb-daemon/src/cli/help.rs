//! The help of the command line: commands in groups, an example for each, and where to read more.

#[cfg(test)]
mod tests;

use clap::Command;

/// Address of the documentation.
const DOCS: &str = "https://github.com/evb-daq/evb/tree/main/docs";

/// Groups of commands, in the order in which the help lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Build events", &["run", "ctl"]),
    ("Prepare a system", &["plan", "check", "frames", "doctor", "keygen", "provision", "probe-buffer"]),
    ("Event files", &["verify", "dump", "tap", "merge"]),
    ("Earlier runs", &["runs", "report"]),
    ("Help", &["completions", "help"]),
];

/// An example of each command, and its page below [`DOCS`].
const EXAMPLES: [(&str, &str, &str); 16] = [
    ("run", "evbd run system.toml --here", "reference/operation.md"),
    ("ctl", "evbd ctl status", "reference/run-control.md"),
    (
        "plan",
        "evbd plan --hosts daq1,daq2,daq3 --key-file evb.key --out out > system.toml",
        "tutorial/two-machines.md",
    ),
    ("check", "evbd check system.toml --here", "reference/configuration.md"),
    ("frames", "evbd frames capture.bin --config system.toml --source 3", "how-to/your-experiment.md"),
    ("doctor", "evbd doctor system.toml", "reference/doctor.md"),
    ("keygen", "evbd keygen evb.key", "explanation/security.md"),
    ("provision", "evbd provision system.toml --device eth0", "how-to/provision.md"),
    ("probe-buffer", "evbd probe-buffer listen 192.0.2.2:7300", "how-to/probe-buffer.md"),
    ("verify", "evbd verify out", "reference/operation.md"),
    ("dump", "evbd dump out --event 17", "reference/operation.md"),
    ("tap", "evbd tap http://127.0.0.1:7301 --sample 0.01 | evbd dump -", "reference/tap.md"),
    ("merge", "evbd merge out --out merged", "reference/operation.md"),
    ("runs", "evbd runs /var/lib/evb", "reference/run-record.md"),
    ("report", "evbd report 7 --state /var/lib/evb", "reference/run-record.md"),
    ("completions", "evbd completions bash > evbd.bash", "how-to/install.md"),
];

/// Template of the help of evbd itself, whose commands are listed after it in groups.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n{after-help}\n\nOptions:\n{options}";

/// Adds the groups, and to each command its example and its page.
pub(super) fn with_help(mut evbd: Command) -> Command {
    evbd.build();
    let mut text = groups(&evbd);
    text += &format!("\n\nDocumentation: {DOCS}");
    for (name, example, page) in EXAMPLES {
        evbd = evbd.mut_subcommand(name, |command| {
            command.after_help(format!("Example:\n  {example}\n\nDocumentation: {DOCS}/{page}"))
        });
    }
    evbd.help_template(TEMPLATE).after_help(text)
}

/// Lists the subcommands under the titles of their groups.
fn groups(evbd: &Command) -> String {
    let widest = evbd.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in GROUPS {
        text += &format!("\n{title}:\n");
        for command in names.iter().filter_map(|name| evbd.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:<widest$}  {about}\n", command.get_name());
        }
    }
    text.trim().to_owned()
}
