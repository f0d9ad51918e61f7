//! Formats findings as a page for people: grouped and aligned, with reasons and commands only where
//! something should be changed.

#[cfg(test)]
mod tests;

use super::finding::{Finding, Subject, Verdict};

/// Number of peers that are always listed; of the further peers, only those with problems are
/// listed.
const MOST_PEERS: usize = 8;

/// Formats all findings as a page.
pub(super) fn page(findings: &[Finding]) -> String {
    let mut page = String::new();
    let mut peers = 0;
    let mut left_out = 0;
    for group in findings.chunk_by(|a, b| a.subject == b.subject) {
        let Some(Finding { subject, .. }) = group.first() else { continue };
        let is_path = matches!(subject, Subject::Path(_));
        peers += usize::from(is_path);
        if is_path && peers > MOST_PEERS && group.iter().all(|finding| finding.verdict == Verdict::Good) {
            left_out += 1;
            continue;
        }
        page += &section(subject, group);
    }
    if left_out > 0 {
        page += &format!("\n{left_out} more peers, all good (--json lists them)\n");
    }
    page + "\n" + &summary(findings)
}

/// Formats the findings about one subject.
fn section(subject: &Subject, group: &[Finding]) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for finding in group {
        match rows.last_mut() {
            // Facts that are unavailable for the same reason share a row.
            Some(row)
                if finding.unavailable && row.finding.unavailable && row.finding.value == finding.value =>
            {
                row.name += ", ";
                row.name += finding.name;
            }
            _ => rows.push(Row { name: finding.name.to_owned(), finding }),
        }
    }
    let title = match subject {
        Subject::Path(name) => format!("path to {name}"),
        subject => match subject.name() {
            Some(name) => format!("{} {name}", subject.group()),
            None => subject.group().to_owned(),
        },
    };
    rows.iter().fold(format!("\n{title}\n"), |page, row| page + &row.text())
}

/// A row of the page: usually one finding, or several facts that are unavailable for the same
/// reason.
struct Row<'f> {
    name: String,
    finding: &'f Finding,
}

/// Width of the column with the facts' names, which fits the longest usual name.
const NAME: usize = 18;

/// Width of the column with the verdicts, which fits the longest one.
const MARK: usize = 15;

impl Row<'_> {
    /// Formats the row: the verdict, the value, the reason and the command.
    fn text(&self) -> String {
        let Finding { verdict, value, why, command, unavailable, .. } = self.finding;
        let mark = match verdict {
            Verdict::Bad => "BAD",
            verdict => verdict.words(),
        };
        let name = &self.name;
        let mut text = format!("  {mark:<MARK$} {name:<NAME$} {value}\n");
        if *verdict != Verdict::Good && !unavailable {
            text += &format!("  {:<MARK$} {:<NAME$}   {why}\n", "", "");
        }
        if let Some(command) = command {
            text += &format!("  {:<MARK$} {:<NAME$} > {command}\n", "", "");
        }
        text
    }
}

/// Formats the counts of the verdicts, and what they mean.
fn summary(findings: &[Finding]) -> String {
    let has_command = findings.iter().any(|finding| finding.command.is_some());
    let commands = if has_command {
        "A line with > is a command for root that improves what is above it.\n"
    } else {
        ""
    };
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let bad = count(Verdict::Bad);
    let meaning = match bad {
        0 => "Nothing is bad: evb can run on this host as it is.\n",
        _ => "With what is bad, evb does not work reliably: change it before a run.\n",
    };
    format!(
        "{bad} bad, {} could be better, {} good, {} unknown\n{meaning}{commands}",
        count(Verdict::Better),
        count(Verdict::Good),
        count(Verdict::Unknown)
    )
}
