use std::path::Path;

use super::*;
use crate::cli::command;

#[test]
fn every_command_is_in_a_group_and_has_an_example() {
    let evbd = command();
    let shown: Vec<&str> =
        evbd.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let mut examples: Vec<&str> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
    let mut expected = shown.clone();
    [&mut grouped, &mut expected].iter_mut().for_each(|names| names.sort_unstable());
    assert_eq!(grouped, expected);
    expected.retain(|name| *name != "help");
    examples.sort_unstable();
    assert_eq!(examples, expected);
}

/// An example that evbd refuses would mislead its reader.
#[test]
fn examples_are_valid_and_their_pages_exist() {
    for (name, example, page) in EXAMPLES {
        let line = example.split(" >").next().unwrap_or_default().replace('\'', "");
        let line = line.replace("1 kHz", "1kHz");
        let parsed = command().try_get_matches_from(line.split_whitespace());
        assert_eq!(
            parsed.map(|found| found.subcommand_name() == Some(name)).map_err(|e| e.to_string()),
            Ok(true)
        );
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        assert!(docs.join(page).is_file(), "{page}");
    }
}

#[test]
fn the_log_does_not_come_first() {
    let mut evbd = command();
    let help = evbd.find_subcommand_mut("run").unwrap().render_long_help().to_string();
    let [here, log] = ["--here", "--log-format"].map(|option| help.find(option).unwrap());
    assert!(here < log && help.contains("Example:\n  evbd run system.toml --here"), "{help}");
}
