//! Chromium, controlled by chromedriver.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use fantoccini::{Client, ClientBuilder, Locator, wd::WebDriverCompatibleCommand};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use lab_base::guard::Guarded;
use serde_json::{Value, json};
use url::Url;

const DRIVER: &str = "http://127.0.0.1:9515";
const WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A script that runs in every page before the page's own scripts: it records violations of the
/// content security policy, and layout shifts.
const WATCH: &str = include_str!("watch.js");

/// Command line switches of Chromium; most of them suppress requests that Chromium sends by itself,
/// so that every request is one of the page.
const SWITCHES: [&str; 14] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
];

/// A Chromium window and its chromedriver process, which end when this value is dropped.
pub(super) struct Browser {
    client: Client,
    _driver: Guarded,
}

/// A command of chromedriver that is not part of the WebDriver standard.
#[derive(Debug)]
struct Own {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Own {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts the browser, with profile and log in `folder`.
    pub(super) async fn start(folder: &Path) -> Result<Self> {
        let profile = folder.join("profile");
        fs::create_dir_all(&profile)?;
        let log = File::create(folder.join("chromedriver.log"))?;
        let mut command = Command::new("chromedriver");
        command.arg("--port=9515").env("HOME", &profile).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let driver = Guarded(command.spawn().context("chromedriver does not start")?);
        let mut switches: Vec<_> = SWITCHES.map(ToOwned::to_owned).into();
        switches.push(format!("--user-data-dir={}", profile.display()));
        let capabilities = json!({
            "goog:chromeOptions": { "args": switches },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let Value::Object(capabilities) = capabilities else { bail!("not an object") };
        let until = Instant::now() + WITHIN;
        let client = loop {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            match builder.capabilities(capabilities.clone()).connect(DRIVER).await {
                Ok(client) => break client,
                Err(error) if Instant::now() > until => return Err(error).context("no browser"),
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let browser = Self { client, _driver: driver };
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH })).await?;
        Ok(browser)
    }

    pub(super) async fn open(&self, url: &str) -> Result<()> {
        Ok(self.client.goto(url).await?)
    }

    /// Runs JavaScript as a function body in the page, and returns its result.
    pub(super) async fn script(&self, body: &str) -> Result<Value> {
        self.script_with(body, &[]).await
    }

    /// Runs JavaScript as the body of a function with these arguments.
    pub(super) async fn script_with(&self, body: &str, arguments: &[Value]) -> Result<Value> {
        self.client.execute(body, arguments.to_vec()).await.with_context(|| body.to_owned())
    }

    /// Returns the text of the element that the CSS selector finds.
    pub(super) async fn text(&self, selector: &str) -> Result<String> {
        let found = self.script(&format!("return document.querySelector({selector:?}).textContent")).await?;
        Ok(found.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks on the element that the CSS selector finds.
    pub(super) async fn click(&self, selector: &str) -> Result<()> {
        Ok(self.client.find(Locator::Css(selector)).await?.click().await?)
    }

    /// Types keys into the element that has the focus.
    pub(super) async fn keys(&self, keys: &str) -> Result<()> {
        Ok(self.client.active_element().await?.send_keys(keys).await?)
    }

    /// Waits until a JavaScript expression is true in the page, and returns the time that this
    /// took.
    pub(super) async fn wait(&self, what: &str, expression: &str, within: Duration) -> Result<Duration> {
        let began = Instant::now();
        while self.script(&format!("return Boolean({expression})")).await? != Value::Bool(true) {
            if began.elapsed() > within {
                let state = self.text("#state").await.unwrap_or_default();
                bail!("never {what}: {expression}; the page shows {state}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(began.elapsed())
    }

    /// Returns the entries of the browser's console since the last call, each with source and
    /// message.
    pub(super) async fn console(&self) -> Result<Vec<(String, String)>> {
        let command = Own { path: "se/log", body: json!({ "type": "browser" }) };
        let entries = self.client.issue_cmd(command).await?;
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let entries = entries.as_array().map(Vec::as_slice).unwrap_or_default();
        let entries = entries.iter().map(|entry| (text(entry, "source"), text(entry, "message")));
        // Chromium's own start page reports that there is no network; its entries are ignored.
        Ok(entries.filter(|(_, message)| !message.starts_with("chrome://")).collect())
    }

    /// Sends a command of the Chrome DevTools protocol.
    pub(super) async fn devtools(&self, name: &str, parameters: Value) -> Result<Value> {
        let body = json!({ "cmd": name, "params": parameters });
        Ok(self.client.issue_cmd(Own { path: "goog/cdp/execute", body }).await?)
    }

    /// Emulates a screen with this size in pixels, pixel ratio, and light or dark theme.
    pub(super) async fn become_screen(
        &self,
        width: u32,
        height: u32,
        scale: f64,
        scheme: &str,
    ) -> Result<()> {
        let is_phone = width < 600;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await?;
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// Returns a screenshot of the page as PNG.
    pub(super) async fn picture(&self) -> Result<Vec<u8>> {
        Ok(self.client.screenshot().await?)
    }
}
