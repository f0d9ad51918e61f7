//! Starts and queries Debian's Prometheus and Alertmanager, configured by the files in `dist`, but
//! with a scrape interval of one second.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};
use lab_base::{guard::Guarded, needs::Need};
use serde_json::Value;

use super::daemon::CONTROL;

pub(crate) const PROMETHEUS: Need = Need { program: "prometheus", package: "prometheus" };
pub(crate) const PROMTOOL: Need = Need { program: "promtool", package: "prometheus" };
pub(crate) const ALERTMANAGER: Need =
    Need { program: "prometheus-alertmanager", package: "prometheus-alertmanager" };
pub(crate) const AMTOOL: Need = Need { program: "amtool", package: "prometheus-alertmanager" };

const PROMETHEUS_AT: &str = "127.0.0.1:9090";
const ALERTMANAGER_AT: &str = "127.0.0.1:9093";
/// Time within which a server must start, or answer a request.
const WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Returns the path of a file or folder in `dist`, which contains the files that evb ships for its
/// users.
pub(crate) fn dist(below: &str) -> PathBuf {
    checkout::root().join("dist").join(below)
}

/// A running Prometheus server that scrapes evbd and evaluates evb's alert rules.
pub(crate) struct Prometheus(#[expect(dead_code, reason = "it ends with this")] Guarded);

impl Prometheus {
    /// Starts Prometheus with the configuration that evb ships, except that all intervals are one
    /// second.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let own = folder.join("prometheus");
        fs::create_dir_all(&own)?;
        let config = fs::read_to_string(dist("prometheus/prometheus.yml"))?;
        let hurried = config.replace("_interval: 5s", "_interval: 1s");
        ensure!(config != hurried, "prometheus.yml does not look every 5 s any more");
        fs::write(own.join("prometheus.yml"), hurried)?;
        fs::copy(dist("prometheus/evb.rules.yml"), own.join("evb.rules.yml"))?;
        let arguments = [
            format!("--config.file={}", own.join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", own.join("data").display()),
            format!("--web.listen-address={PROMETHEUS_AT}"),
        ];
        let process = serve("prometheus", &arguments, &own, PROMETHEUS_AT, "/-/ready")?;
        Ok(Self(process))
    }

    /// Evaluates a PromQL expression now, and returns the resulting samples.
    pub(crate) fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let answer = self.ask(&format!("query?query={}", encoded(expression)))?;
        Ok(answer["result"].as_array().cloned().unwrap_or_default())
    }

    /// Evaluates a PromQL expression for every second of the last `lasted`, and returns the number
    /// of finite values.
    pub(crate) fn count_values(&self, expression: &str, lasted: Duration) -> Result<usize> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let (start, end) = (now - lasted.as_secs_f64(), now);
        let path = format!("query_range?start={start:.3}&end={end:.3}&step=1&query={}", encoded(expression));
        let answer = self.ask(&path)?;
        let series = answer["result"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values = series.iter().filter_map(|series| series["values"].as_array()).flatten();
        let finite = |value: &&Value| number(&value[1]).is_finite();
        Ok(values.filter(finite).count())
    }

    /// Evaluates a PromQL expression that has one value, and returns the value; NaN if the result
    /// is empty.
    pub(crate) fn value(&self, expression: &str) -> Result<f64> {
        Ok(self.query(expression)?.first().map_or(f64::NAN, |sample| number(&sample["value"][1])))
    }

    /// Returns the alerts that currently fire in Prometheus.
    pub(crate) fn firing(&self) -> Result<Vec<Alert>> {
        let answer = self.ask("alerts")?;
        let all = answer["alerts"].as_array().cloned().unwrap_or_default();
        Ok(all.iter().filter(|alert| alert["state"] == "firing").map(Alert::read).collect())
    }

    fn ask(&self, path: &str) -> Result<Value> {
        let text = fetch(PROMETHEUS_AT, &format!("/api/v1/{path}"))?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))?;
        ensure!(answer["status"] == "success", "Prometheus refuses {path}: {answer}");
        Ok(answer["data"].take())
    }
}

/// A running Alertmanager server, which receives alerts from Prometheus.
pub(crate) struct Alertmanager(#[expect(dead_code, reason = "it ends with this")] Guarded);

impl Alertmanager {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let own = folder.join("alertmanager");
        fs::create_dir_all(&own)?;
        let arguments = [
            format!("--config.file={}", dist("prometheus/alertmanager.yml").display()),
            format!("--storage.path={}", own.join("data").display()),
            format!("--web.listen-address={ALERTMANAGER_AT}"),
            // An empty address disables Alertmanager's cluster mode.
            "--cluster.listen-address=".to_owned(),
        ];
        let process = serve("prometheus-alertmanager", &arguments, &own, ALERTMANAGER_AT, "/-/ready")?;
        Ok(Self(process))
    }

    /// Returns the active alerts that Alertmanager has received.
    pub(crate) fn alerts(&self) -> Result<Vec<Alert>> {
        let text = fetch(ALERTMANAGER_AT, "/api/v2/alerts")?;
        let answer: Vec<Value> = serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))?;
        Ok(answer.iter().map(Alert::read).collect())
    }
}

/// An alert: its name, the peer that it blames, and a summary text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) culprit: String,
    pub(crate) summary: String,
}

impl Alert {
    fn read(alert: &Value) -> Self {
        let text = |part: &str, key: &str| alert[part][key].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("labels", "alertname"),
            culprit: text("labels", "culprit"),
            summary: text("annotations", "summary"),
        }
    }

    pub(crate) fn is(&self, name: &str, culprit: &str) -> bool {
        self.name == name && self.culprit == culprit
    }
}

/// Starts a server program, and waits until its HTTP path `ready` answers.
fn serve(program: &str, arguments: &[String], folder: &Path, address: &str, ready: &str) -> Result<Guarded> {
    let log = File::create(folder.join("log"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut process = Guarded(command.spawn().with_context(|| format!("{program} does not start"))?);
    let until = Instant::now() + WITHIN;
    while fetch(address, ready).is_err() {
        if let Some(status) = process.0.try_wait()? {
            bail!("{program} has ended with {status}: {}", folder.join("log").display());
        }
        ensure!(Instant::now() < until, "{program} is never ready: {}", folder.join("log").display());
        thread::sleep(LOOK_EVERY);
    }
    Ok(process)
}

/// Requests evbd's metrics in the older Prometheus text format.
pub(crate) fn metrics() -> Result<String> {
    fetch(CONTROL, "/metrics")
}

/// Requests a path over HTTP, and returns the body of the answer; fails if the status code is not
/// 200.
fn fetch(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WITHIN))?;
    // HTTP/1.0 is used because a server does not split its answers into chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    ensure!(code == "200", "{address}{path} answers {code}: {body}");
    Ok(body.to_owned())
}

/// Runs a checking program, and returns true if it succeeded, with its output.
pub(crate) fn judge(program: &str, arguments: &[&str], folder: &Path, input: &str) -> Result<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().with_context(|| format!("{program} does not start"))?;
    process.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = process.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).trim().to_owned()))
}

/// Parses a number from a JSON string, the form in which Prometheus returns numbers.
fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

/// Percent-encodes a text for the path of an HTTP request.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let byte = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests;
