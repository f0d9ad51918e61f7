mod captures;
mod datagrams;
mod documents;
mod frames;
mod hooks;
mod garbled;
mod golden;
mod mistakes;
mod schema;
mod security;
mod sinks;
mod values;

use super::{Config, Problems, read};

/// The supervisor section of the smallest valid system, whose `[run]`, `[network]` and `[shaping]`
/// are left to their defaults.
const SUPERVISOR: &str =
    "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"periodic\", rate = \"2 kHz\" }\n";
const SOURCE: &str = "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
const BUILDER: &str = "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";

/// Completes `sections` to a configuration with a supervisor, a source and a builder.
pub(crate) fn around(sections: &str) -> String {
    let mut text = sections.to_owned();
    for (head, default) in [("[supervisor]", SUPERVISOR), ("[[source]]", SOURCE), ("[[builder]]", BUILDER)] {
        if !sections.contains(head) {
            text.push('\n');
            text.push_str(default);
        }
    }
    text
}

pub(crate) fn good(sections: &str) -> Config {
    match read(&around(sections), "test.toml") {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("refused:\n{problems}"),
    }
}

pub(crate) fn bad(sections: &str) -> Problems {
    read(&around(sections), "test.toml").expect_err("this configuration is wrong")
}

/// Checks that a configuration is refused at that key and line, with these words in reason and
/// remedy, and returns all its problems.
fn refused(sections: &str, key: &str, line: usize, reason: &str, remedy: &str) -> Problems {
    let problems = bad(sections);
    let found = problems.iter().any(|problem| {
        problem.key == key
            && problems.line_of(problem) == line
            && problem.reason.contains(reason)
            && problem.remedy.contains(remedy)
    });
    assert!(found, "{sections}:\n{problems}");
    problems
}
