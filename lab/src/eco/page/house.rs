//! Rules that the control page must obey in every state: one typeface, at most four text sizes,
//! enough contrast, no requests to other origins.

use std::time::Duration;

use anyhow::Result;
use lab_base::report::{Bound, Report};
use serde_json::Value;

use super::browser::Browser;

/// A script that returns the lowest contrast of any text, the numbers of typefaces and text sizes,
/// the parts that are cut off, and the smallest distance between two cells of a row.
const LOOKS: &str = include_str!("looks.js");
/// A script that returns the numbers of requests to other origins, of files of the page, and of
/// their bytes, as counted by the browser.
const REQUESTS: &str = "
    const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const own = all.filter((entry) => new URL(entry.name).origin === location.origin);
    const files = own.filter((entry) => !new URL(entry.name).pathname.startsWith('/v1/'));
    const bytes = files.reduce((sum, entry) => sum + entry.encodedBodySize, 0);
    return [all.length - own.length, files.length, bytes];";
/// Smallest allowed distance between the texts of two cells of a row: two digits.
const LEAST_GAP: f64 = 7.0;
/// Largest allowed number of bytes that a browser loads for the page.
const SIZE: f64 = 150_000.0;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Checks contrast, typefaces and sizes of all text in the current theme, and that the page is not
/// wider than the screen, nothing is cut off, and no two cells of a row touch.
pub(super) async fn looks(browser: &Browser, name: &str, report: &mut Report) -> Result<()> {
    let found = browser.script(LOOKS).await?;
    report.note(format!("{name}: lowest contrast {:.2} of `{}`", number(&found["contrast"]), found["where"]));
    report.holds(&format!("{name}: contrast of any text"), number(&found["contrast"]), Bound::AtLeast(4.5));
    report.holds(&format!("{name}: typefaces"), number(&found["families"]), Bound::AtMost(1.0));
    report.holds(&format!("{name}: sizes of letters"), number(&found["sizes"]), Bound::AtMost(4.0));
    report.holds(&format!("{name}: wider than the screen, px"), number(&found["over"]), Bound::AtMost(0.0));
    let cut = found["cut"].as_array().map_or(f64::NAN, |list| list.len() as f64);
    if cut > 0.0 {
        report.note(format!("{name}: cut off: {}", found["cut"]));
    }
    report.holds(&format!("{name}: parts that are cut off"), cut, Bound::AtMost(0.0));
    report.holds(
        &format!("{name}: px between two cells of a row"),
        number(&found["gap"]),
        Bound::AtLeast(LEAST_GAP),
    );
    Ok(())
}

/// Checks that the page loads nothing from another origin, and not too many bytes in total.
pub(super) async fn requests(browser: &Browser, report: &mut Report) -> Result<()> {
    let found = browser.script(REQUESTS).await?;
    report.holds("requests to other origins", number(&found[0]), Bound::AtMost(0.0));
    report.holds("files of the page", number(&found[1]), Bound::AtLeast(5.0));
    report.holds("bytes of the page", number(&found[2]), Bound::AtMost(SIZE));
    Ok(())
}

/// Checks that the browser's console has no entries except the refused commands (HTTP status 409)
/// that the test provoked.
pub(super) async fn console(browser: &Browser, refusals: usize, report: &mut Report) -> Result<()> {
    let entries = browser.console().await?;
    let (refused, others): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|(source, message)| source == "network" && message.contains("status of 409"));
    for (source, message) in &others {
        report.note(format!("console: {source}: {message}"));
    }
    report.holds("errors on the console", others.len() as f64, Bound::AtMost(0.0));
    report.yes("each refusal that was asked for, and no other", refused.len() == refusals);
    Ok(())
}

/// Checks that the page has not violated its content security policy so far, and that two
/// deliberate violations are detected.
pub(super) async fn policy(browser: &Browser, report: &mut Report) -> Result<()> {
    let violations = browser.script("return watched.violations").await?;
    let count = violations.as_array().map_or(f64::NAN, |list| list.len() as f64);
    if count > 0.0 {
        report.note(format!("violations: {violations}"));
    }
    report.holds("violations of the content security policy", count, Bound::AtMost(0.0));
    let plant = "const image = new Image(); image.src = 'http://192.0.2.1/x.png'; document.body.append(image);
                 const style = document.createElement('style'); style.textContent = 'i { color: red }'; document.body.append(style);";
    browser.script(plant).await?;
    let seen =
        browser.wait("two violations", "watched.violations.length === 2", Duration::from_secs(3)).await;
    report.yes("two violations that were planted are seen", seen.is_ok());
    Ok(())
}

/// Checks that the layout does not shift for four seconds in which only numbers change. If a
/// problem message appears or disappears in this time, the check is repeated.
pub(super) async fn stillness(browser: &Browser, report: &mut Report) -> Result<()> {
    const PROBLEMS: &str = "return document.querySelectorAll('#problems p').length";
    for _ in 0..5 {
        let before = browser.script(PROBLEMS).await?;
        browser.script("watched.shifts.length = 0").await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let shifts = browser.script("return watched.shifts").await?;
        if browser.script(PROBLEMS).await? != before {
            continue;
        }
        let sum: f64 = shifts.as_array().into_iter().flatten().map(|shift| number(&shift[0])).sum();
        if sum > 0.0 {
            report.note(format!("moved: {shifts}"));
        }
        report.holds("layout that moved in 4 s of a run", sum, Bound::AtMost(0.0));
        return Ok(());
    }
    report.note("problems came and went all the time: whether nothing moves was not judged".to_owned());
    Ok(())
}
