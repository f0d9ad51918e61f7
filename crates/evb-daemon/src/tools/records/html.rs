//! The record of a run as one HTML page without scripts, which prints on A4.

mod chart;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write as _};

use evb::supervisor::{NotedProblem, RunPoint, RunRecord};
use evb_core::{id::ranges, quantities::size, time::Utc, units::Bytes};
use serde_json::Value;

use super::is_open;

/// The style of the page: colours and type of the page of evbd, for paper.
const STYLE: &str = include_str!("html/style.css");

/// Returns the page of a record. All texts of the record are escaped.
pub(super) fn page(record: &RunRecord) -> String {
    let mut page = PrintedPage(String::new());
    page.head(record);
    page.events(record);
    page.plots(record);
    page.problems(record);
    page.ledger(record);
    page.files(record);
    page.hooks(record);
    page.system(record);
    page.0.push_str("</main>\n</html>\n");
    page.0
}

/// Returns a text that HTML shows as it is, without control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Returns a number with a narrow space between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Returns a time without the digits below a second, for a table.
fn second(at: Utc) -> String {
    let text = at.to_string();
    text.get(..19).map_or_else(|| "unknown".to_owned(), |text| text.replace('T', " "))
}

/// Returns the points of a series. The last step is joined with the one before if it is much
/// shorter: the reports of builders lag behind, so its rates would be those of another time.
fn whole_steps(points: &[RunPoint]) -> Vec<RunPoint> {
    let mut whole = points.to_vec();
    if let [.., before, from, to] = points
        && 2.0 * (to.at_s - from.at_s) < from.at_s - before.at_s
    {
        whole.remove(points.len() - 2);
    }
    whole
}

struct PrintedPage(String);

impl PrintedPage {
    fn add(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(html);
    }

    /// Adds a table of texts, unless it has no row. A column whose title begins with `#` has
    /// numbers, and one whose title begins with `~` may be broken anywhere.
    fn table<const N: usize>(&mut self, title: &str, columns: [&str; N], rows: Vec<[String; N]>) {
        if rows.is_empty() {
            return;
        }
        let class = |column: usize| match columns[column].as_bytes() {
            [b'#', ..] => " class=\"n\"",
            [b'~', ..] => " class=\"w\"",
            _ => "",
        };
        self.add(format_args!("<section><h2>{title}</h2>\n<table><thead><tr>"));
        for (column, name) in columns.iter().enumerate() {
            self.add(format_args!("<th{}>{}</th>", class(column), name.trim_start_matches(['#', '~'])));
        }
        self.0.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.0.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                self.add(format_args!("<td{}>{}</td>", class(column), escaped(cell)));
            }
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</tbody></table></section>\n");
    }

    /// Adds a line about entries that the record does not have.
    fn left_out(&mut self, count: u64, what: &str) {
        if count > 0 {
            self.add(format_args!("<p class=\"note\">{} {what} not listed.</p>\n", grouped(count)));
        }
    }

    /// Writes the head of the page and the facts about the run.
    fn head(&mut self, record: &RunRecord) {
        let run = &record.run;
        let (state, word) = match (is_open(record), run.exit_code) {
            (true, _) => ("open", "no end recorded"),
            (false, 0) => ("good", "good"),
            (false, _) => ("bad", "with problems"),
        };
        self.add(format_args!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Run {}</title>\n<style>{STYLE}</style>\n<main>\n\
             <header><h1>Run {0}</h1><p class=\"state {state}\">{word}</p></header>\n<p class=\"verdict\">{}</p>\n<dl>",
            run.run,
            escaped(&run.verdict)
        ));
        let end = match is_open(record) {
            true => ("Latest update", second(record.updated)),
            false => ("End", format!("{} UTC, after {:.1} s", second(run.end), run.duration_s)),
        };
        let facts = [
            ("Begin", format!("{} UTC", second(run.begin))),
            end,
            ("Kind", run.annotation.kind.clone()),
            ("Comment", run.annotation.comment.clone()),
            ("Run id", run.run_id.to_string()),
            ("Exit code", run.exit_code.to_string()),
        ];
        for (key, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
            self.add(format_args!("<dt>{key}</dt><dd>{}</dd>", escaped(text)));
        }
        self.0.push_str("</dl>\n");
    }

    /// Adds the outcomes of the triggers, as a bar and as numbers.
    fn events(&mut self, record: &RunRecord) {
        let events = record.run.events;
        let parts = [
            ("complete", events.complete, "green"),
            ("incomplete", events.incomplete, "orange"),
            ("rejected", events.rejected, "grey"),
            ("inhibited", events.inhibited, "sky"),
            ("lost", events.lost, "red"),
        ];
        self.0.push_str("<section><h2>Triggers</h2>\n");
        self.0.push_str(&chart::bar(&parts.map(|(_, count, colour)| (count, colour)), events.triggered));
        self.0.push_str("<ul class=\"key\">");
        self.add(format_args!("<li><b>{}</b> triggers</li>", grouped(events.triggered)));
        for (name, count, colour) in parts {
            self.add(format_args!("<li><i class=\"{colour}\"></i><b>{}</b> {name}</li>", grouped(count)));
        }
        self.0.push_str("</ul></section>\n");
    }

    /// Adds rates and dead time over the run, if there are at least two points.
    fn plots(&mut self, record: &RunRecord) {
        let points = whole_steps(&record.series.points);
        let over = |of: &dyn Fn(&[RunPoint]) -> f64| {
            let steps = points.windows(2).filter(|pair| pair[1].at_s > pair[0].at_s);
            steps.map(|pair| (pair[0].at_s, pair[1].at_s, of(pair))).collect::<Vec<_>>()
        };
        let per_second = |from: u64, to: u64, pair: &[RunPoint]| {
            to.saturating_sub(from) as f64 / (pair[1].at_s - pair[0].at_s)
        };
        let events = over(&|pair| per_second(pair[0].events, pair[1].events, pair));
        let bytes = over(&|pair| per_second(pair[0].payload_bytes, pair[1].payload_bytes, pair) / 1e6);
        let dead = over(&|pair| {
            let inhibited = pair[1].inhibited.saturating_sub(pair[0].inhibited) as f64;
            100.0 * inhibited / (pair[1].triggered.saturating_sub(pair[0].triggered).max(1) as f64)
        });
        if events.is_empty() {
            return;
        }
        self.0.push_str("<section><h2>Course of the run</h2>\n");
        for (title, steps, colour) in [
            ("Built events per second", events, "blue"),
            ("Payload written, MB/s", bytes, "green"),
            ("Inhibited triggers, %", dead, "red"),
        ] {
            self.0.push_str(&chart::steps(title, &steps, colour));
        }
        self.0.push_str("</section>\n");
    }

    /// Writes the problems and remarks of the run.
    fn problems(&mut self, record: &RunRecord) {
        let problem = |noted: &NotedProblem| {
            let again = if noted.count > 1 { format!(" ({} times)", noted.count) } else { String::new() };
            let remedy = if noted.remedy.is_empty() { String::new() } else { format!(": {}", noted.remedy) };
            [second(noted.first), noted.subject.clone(), format!("{}{again}{remedy}", noted.text)]
        };
        let rows = record.noted_problems.iter().map(problem).collect();
        self.table("Problems", ["First seen, UTC", "~Subject", "~Problem"], rows);
        self.left_out(record.problems_left_out, "more problems are");
        self.table("Remarks", ["~"], record.run.remarks.iter().map(|remark| [remark.clone()]).collect());
    }

    /// Adds what the report says about sources, builders and dead time.
    fn ledger(&mut self, record: &RunRecord) {
        let report = record.report.as_ref().unwrap_or(&Value::Null);
        let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let number = |entry: &Value, key: &str| grouped(entry[key].as_u64().unwrap_or(0));
        let named = |entry: &Value| format!("{} {}", entry["id"], text(entry, "name"));
        let causes = |entry: &Value, key: &str, what: &str| {
            let counts = entry[key].as_object().cloned().unwrap_or_default();
            let rows = counts.into_iter().filter(|(_, count)| count.as_u64() > Some(0));
            rows.map(|(cause, count)| {
                [named(entry), what.to_owned(), cause, grouped(count.as_u64().unwrap_or(0))]
            })
            .collect::<Vec<_>>()
        };
        let sources = list("sources");
        let missing = sources.iter().flat_map(|source| {
            let missing = causes(source, "missing_by_cause", "incomplete without it");
            missing.into_iter().chain(causes(source, "absent_by_cause", "complete without it"))
        });
        self.table(
            "Events without a source, by cause",
            ["~Source", "Events", "~Cause", "#Number"],
            missing.collect(),
        );
        let dead = list("dead_time_causes");
        let dead = dead.iter().map(|cause| [text(cause, "cause"), number(cause, "inhibited")]).collect();
        self.table("Dead time by cause", ["~Cause", "#Inhibited triggers"], dead);
        let changes = list("changes").into_iter().map(|change| {
            let what = if change["excluded"] == true { "excluded" } else { "included" }.to_owned();
            [change["source"].to_string(), what, change["from"].to_string(), text(&change, "why")]
        });
        self.table(
            "Exclusions and inclusions",
            ["Source", "Change", "#From event", "~Reason"],
            changes.collect(),
        );
        let episodes = record.episodes.iter().map(|episode| {
            let until = episode.until.map_or_else(|| "the end".to_owned(), |event| event.to_string());
            [episode.source.to_string(), episode.since.to_string(), until, episode.text.clone()]
        });
        self.table(
            "Disagreeing timestamps",
            ["Source", "#From event", "#To event", "~What happened"],
            episodes.collect(),
        );
        let builders = list("builders").into_iter().map(|builder| {
            let bytes = builder["payload_bytes"].as_u64().unwrap_or(0);
            let count = |key| number(&builder, key);
            [named(&builder), count("complete"), count("incomplete"), count("lost"), count("written"), {
                size(Bytes::new(bytes))
            }]
        });
        self.table(
            "Builders",
            ["~Builder", "#Complete", "#Incomplete", "#Lost", "#Written", "#Payload"],
            builders.collect(),
        );
    }

    /// Writes the files that builders have closed.
    fn files(&mut self, record: &RunRecord) {
        let rows = record.files.iter().map(|file| {
            let (builder, path, sum) = (file.builder.to_string(), file.path.clone(), file.crc64_nvme.clone());
            [builder, path, grouped(file.events), grouped(file.size), sum]
        });
        let columns = ["Builder", "~Path", "#Events", "#Bytes", "CRC-64/NVME"];
        self.table("Files", columns, rows.collect());
        self.left_out(record.files_left_out, "more files are");
    }

    /// Writes the calls of hooks.
    fn hooks(&mut self, record: &RunRecord) {
        let rows = record.hooks.calls.iter().map(|call| {
            [
                second(call.at),
                call.hook.clone(),
                call.program.clone(),
                call.outcome.to_string(),
                call.text.clone(),
            ]
        });
        self.table("Hooks", ["Time, UTC", "Hook", "~Program", "Outcome", "~Reason"], rows.collect());
        let closed = record.hooks.counts.get("file_closed").copied().unwrap_or_default();
        if closed.succeeded + closed.failed + closed.dropped > 0 {
            self.add(format_args!(
                "<p class=\"note\">file_closed: {} succeeded, {} failed, {} dropped.</p>\n",
                grouped(closed.succeeded),
                grouped(closed.failed),
                grouped(closed.dropped)
            ));
        }
    }

    /// Writes which version of evb ran where, and the configuration.
    fn system(&mut self, record: &RunRecord) {
        let mut versions: BTreeMap<&str, [Vec<u32>; 2]> = BTreeMap::new();
        for (kind, software) in [&record.source_software, &record.builder_software].into_iter().enumerate() {
            for (id, version) in software {
                versions.entry(version).or_default()[kind].push(*id);
            }
        }
        let ids = |ids: &[u32]| ranges(ids.iter().map(|id| u64::from(*id)));
        let mut rows = vec![[format!("evb {}", record.supervisor_version), "supervisor".to_owned()]];
        for (version, [sources, builders]) in versions {
            rows.extend(
                (!sources.is_empty()).then(|| [version.to_owned(), format!("sources {}", ids(&sources))]),
            );
            rows.extend(
                (!builders.is_empty()).then(|| [version.to_owned(), format!("builders {}", ids(&builders))]),
            );
        }
        self.table("Software", ["~Version", "~Roles"], rows);
        if let Some(configuration) = &record.configuration {
            self.add(format_args!(
                "<section><h2>Configuration</h2>\n<p class=\"note\">CRC-64/NVME {}</p>\n<pre>{}</pre></section>\n",
                escaped(&configuration.crc64_nvme),
                escaped(&configuration.text)
            ));
        }
    }
}
