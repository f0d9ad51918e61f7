//! [`parse`]: the steps of a tutorial page, read from its fenced code blocks.
//!
//! The info string of a block says what it is:
//!
//! - `sh`: commands, which must succeed; `sh exits 1`: the last command must fail with that code;
//! - `sh background`: one command in a terminal of its own, which stays running;
//! - `text`, or any language followed by `output`: what the commands before it print;
//! - `LANGUAGE FILE`: a file that the reader writes; `LANGUAGE append FILE`: text at its end.
//!
//! A comment `<!-- tutorial: COMMAND -->` is a command in the place of a click or a keystroke.

#[cfg(test)]
mod tests;

use anyhow::{Result, bail};

/// Prefix of the comment that has a command in the place of a click.
const HIDDEN: &str = "<!-- tutorial: ";

/// An action of the reader, and the line of the page on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) action: Action,
}

/// An action of the reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Types commands and waits until they have ended, the last of them with this exit code.
    Run { commands: Vec<Command>, code: i32 },
    /// Types a command in a new terminal, and leaves it running.
    Background(Command),
    /// Looks at the output of the commands before.
    Expect(Vec<String>),
    /// Writes a file.
    Write { file: String, text: String },
    /// Writes text at the end of a file.
    Append { file: String, text: String },
}

/// A command line, and the host whose prompt stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) host: Option<String>,
    pub(crate) line: String,
}

impl Command {
    /// Reads a command line, perhaps behind a prompt such as `daq1$ `.
    fn of(line: &str) -> Self {
        let prompt = line.split_once("$ ").filter(|(host, _)| is_name(host));
        match prompt {
            Some((host, line)) => Self { host: Some(host.to_owned()), line: line.to_owned() },
            None => Self { host: None, line: line.to_owned() },
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Returns the steps of a page in their order.
///
/// # Errors
/// A block whose info string says nothing of the above, or that has no end.
pub(crate) fn parse(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = (1..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        if let Some(hidden) = text.strip_prefix(HIDDEN) {
            let Some(command) = hidden.strip_suffix(" -->") else {
                bail!("line {line}: no ` -->` at its end")
            };
            let commands = vec![Command::of(command)];
            steps.push(Step { line, action: Action::Run { commands, code: 0 } });
        }
        let Some(info) = text.strip_prefix("```") else { continue };
        let mut block = Vec::new();
        loop {
            match lines.next() {
                Some((_, "```")) => break,
                Some((_, text)) => block.push(text.to_owned()),
                None => bail!("line {line}: the block has no end"),
            }
        }
        let Some(action) = action(info, block) else {
            bail!(
                "line {line}: a block `{info}` is neither commands (`sh`), output (`text`, `{info} output`) nor a file (`{info} FILE`)"
            );
        };
        steps.push(Step { line, action });
    }
    Ok(steps)
}

fn action(info: &str, block: Vec<String>) -> Option<Action> {
    let words: Vec<&str> = info.split_whitespace().collect();
    let commands = || block.iter().map(|line| Command::of(line)).collect();
    let text = || block.iter().map(|line| format!("{line}\n")).collect();
    Some(match words[..] {
        ["sh"] => Action::Run { commands: commands(), code: 0 },
        ["sh", "exits", code] => Action::Run { commands: commands(), code: code.parse().ok()? },
        ["sh", "background"] => Action::Background(Command::of(block.first().filter(|_| block.len() == 1)?)),
        ["text"] | [_, "output"] => Action::Expect(block),
        [_, file] => Action::Write { file: file.to_owned(), text: text() },
        [_, "append", file] => Action::Append { file: file.to_owned(), text: text() },
        _ => return None,
    })
}
