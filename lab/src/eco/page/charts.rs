//! Checks of the charts: their lines, their time span, and the colours of the causes of dead time.

use std::time::Duration;

use anyhow::Result;
use lab_base::report::{Bound, Report};
use serde_json::{Value, json};

use super::browser::Browser;

/// A script that makes up an hour of history.
const HOUR: &str = include_str!("hour.js");
/// Causes of the last 30 s, of a minute 5 minutes ago, and of the time until 30 minutes ago.
const CAUSES: [&str; 3] = ["source 5", "sink of builder 1", "source 2"];
/// A script that returns for each chart the number of pixels of its most frequent colour, and the
/// place of the first coloured pixel as a fraction of the width.
const LINES: &str = "return [...document.querySelectorAll('#charts canvas')].map((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Map();
    let first = canvas.width;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] !== 255) continue;
      const [r, g, b] = data.slice(i, i + 3);
      if (Math.max(r, g, b) - Math.min(r, g, b) <= 60) continue;
      seen.set(`${r},${g},${b}`, (seen.get(`${r},${g},${b}`) ?? 0) + 1);
      first = Math.min(first, (i / 4) % canvas.width);
    }
    return [Math.max(0, ...seen.values()), first / canvas.width];
  })";
/// Time until the page shows new samples.
const SOON: Duration = Duration::from_secs(5);

/// Checks that the charts show lines, which fill their width although the run is young: a chart
/// with lines has coloured pixels, an empty chart has none.
pub(super) async fn lines(browser: &Browser, report: &mut Report) -> Result<()> {
    let found = browser.script(LINES).await?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let found: Vec<(f64, f64)> =
        found.as_array().into_iter().flatten().map(|chart| (number(&chart[0]), number(&chart[1]))).collect();
    report.note(format!("coloured pixels of the charts, and where they begin: {found:?}"));
    report.holds("charts", found.len() as f64, Bound::AtLeast(4.0));
    let drawn: Vec<_> = found.iter().filter(|(count, _)| *count >= 5.0).collect();
    // The chart of dead time is empty if there was no dead time, so three of the four charts must
    // have lines.
    report.holds("charts with lines", drawn.len() as f64, Bound::AtLeast(3.0));
    let first = drawn.iter().map(|(_, first)| *first).fold(0.0, f64::max);
    report.holds("a young run: empty fraction of a chart", first, Bound::AtMost(0.6));
    Ok(())
}

/// Checks what the charts show of an hour with three causes of dead time, in each span, and the
/// colours of the causes. The same hour with the causes in the opposite order must have the same
/// colours. Opens the page again at `url`.
pub(super) async fn spans(browser: &Browser, url: &str, report: &mut Report) -> Result<()> {
    let mut legends = Vec::new();
    let [latest, earlier, first] = CAUSES;
    for causes in [CAUSES, [first, earlier, latest]] {
        browser.open(url).await?;
        let are_there = "document.querySelectorAll('#sources tbody tr').length === 6";
        browser.wait("six sources", are_there, SOON).await?;
        // The causes then appear one after the other, the latest first.
        click(browser, 1).await?;
        browser.script_with(HOUR, &causes.map(Value::from)).await?;
        for (minutes, wanted) in [(1, &causes[..1]), (10, &causes[..2]), (60, &causes[..])] {
            let named = choose(browser, minutes, wanted).await?;
            report.yes(&format!("{} min, {} first: the causes of this time", minutes, causes[2]), named);
        }
        legends.push(browser.script("return legend()").await?);
        let drawn = browser.script("return drawn()").await?;
        report.yes(&format!("{} first: the chart has the colours of its legend", causes[2]), drawn == 3);
    }
    report.note(format!("colours of the causes: {legends:?}"));
    report.yes("the order of the causes does not change their colours", legends[0] == legends[1]);
    let tables = "return [swatch('sources', '5'), swatch('builders', '1'), swatch('sources', '2')]";
    let tables = browser.script(tables).await?;
    let colours: Vec<_> = CAUSES.iter().map(|cause| &legends[0][*cause]).collect();
    report.yes("the tables have the same colours", json!(colours) == tables);
    browser.open(url).await?;
    let kept = "document.querySelector('[data-minutes=\"60\"]')?.ariaPressed === 'true'";
    report.yes("the chosen span is kept", browser.wait("60 min", kept, SOON).await.is_ok());
    click(browser, 10).await
}

/// Chooses a span, and returns true if the legend then names the wanted causes and no others.
async fn choose(browser: &Browser, minutes: u32, wanted: &[&str]) -> Result<bool> {
    click(browser, minutes).await?;
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    let is = format!("JSON.stringify(Object.keys(legend()).sort()) === JSON.stringify({wanted:?})");
    Ok(browser.wait("the causes", &is, SOON).await.is_ok())
}

async fn click(browser: &Browser, minutes: u32) -> Result<()> {
    browser.script(&format!("document.querySelector('[data-minutes=\"{minutes}\"]')?.click()")).await?;
    Ok(())
}
