//! The steps of the page test: a run controlled by clicks, a run controlled by keys, a silent
//! source, a slow sink, a restarted evbd, front ends that fail, a missed trigger, and a large
//! system.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use lab_base::{
    disk::Disk,
    report::{Bound, Report},
    setting::Setting,
};
use serde_json::Value;

use super::{boards::Board, browser::Browser, charts, figures, house, pictures::Album};
use crate::{
    eco::daemon::{CONTROL, Daemon},
    lab::pressure::slow::SlowDisk,
};

const CONFIG: &str = include_str!("evb.toml");
const READOUTS: &str = include_str!("readouts.toml");
/// The system of the tutorial, whose source 5 misses the trigger of event 5000.
const MISSED_TRIGGER: &str = include_str!("../../../../examples/missed-trigger.toml");
/// Roles of the main evbd process: all roles except that of source 6, which is frozen later.
const LEADER: [&str; 8] =
    ["supervisor", "source:1", "source:2", "source:3", "source:4", "source:5", "builder:1", "builder:2"];
const OTHER: &str = "source:6";
/// Size of the disk of both builders, in bytes: enough for a run of ten minutes, if a screenshot of
/// a long run is wanted.
const DISK: u64 = 5 << 30;
/// Longest allowed time from a command to its effect on the page.
const SOON: Duration = Duration::from_secs(8);
const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
/// A comment of a run that contains HTML, which the page must show as plain text.
const COMMENT: &str = "beam on, <i>3 mm</i> collimator";
/// Time for which source 6 is frozen, and later the sink slow.
const TROUBLE: Duration = Duration::from_secs(12);

struct Course<'a> {
    setting: &'a Setting,
    daemon: Daemon,
    browser: Browser,
    album: Album,
    report: Report,
    /// Number of commands that evbd refused because the test sent them at the wrong time.
    refusals: usize,
}

/// Runs all steps of the page test, and returns true if every check passed.
pub(super) fn run(setting: &Setting, good: Duration) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = setting.out.join("page");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let disk = Disk::mount(&folder.join("disk"), DISK)?;
    let holds = runtime.block_on(async {
        let mut daemon = Daemon::new(&setting.evbd, &folder, CONFIG)?;
        daemon.start("leader", &LEADER)?;
        daemon.start("other", &[OTHER])?;
        daemon.wait("ready", |status| status["ready"] == true)?;
        let browser = Browser::start(&folder).await?;
        let album = Album { folder: folder.join("pictures") };
        let report = Report::bare("page");
        let mut course = Course { setting, daemon, browser, album, report, refusals: 0 };
        course.play(good, &disk).await.with_context(|| format!("logs in {}", folder.display()))?;
        course.report.finish(&course.setting.out)
    });
    drop(disk);
    holds
}

impl Course<'_> {
    async fn play(&mut self, good: Duration, disk: &Disk) -> Result<()> {
        self.browser.become_screen(1280, 1180, 1.0, "light").await?;
        let began = Instant::now();
        let url = format!("http://{CONTROL}/");
        self.browser.open(&url).await?;
        self.browser
            .wait("connected", "document.querySelector('#state').textContent === 'Configured'", SOON)
            .await?;
        self.report.noisy(
            "from the address to the state, s",
            began.elapsed().as_secs_f64(),
            Bound::AtMost(2.0),
        );
        charts::spans(&self.browser, &url, &mut self.report).await?;
        self.by_clicks().await?;
        self.by_keys(good).await?;
        self.silent_source().await?;
        self.slow_sink(disk).await?;
        house::console(&self.browser, self.refusals, &mut self.report).await?;
        self.new_daemon().await?;
        self.other_systems().await?;
        self.large_system().await?;
        house::requests(&self.browser, &mut self.report).await?;
        house::console(&self.browser, 0, &mut self.report).await?;
        house::policy(&self.browser, &mut self.report).await
    }

    /// Presses the button of a command, and waits until the page shows the given state.
    async fn press(&self, command: &str, state: &str, by_keys: bool) -> Result<()> {
        let button = format!("[data-command={command}]");
        if by_keys {
            let key = self
                .browser
                .script(&format!("return document.querySelector({button:?}).ariaKeyShortcuts"))
                .await?;
            self.browser.keys(key.as_str().context("no key")?).await?;
            self.browser.keys(ENTER).await?;
        } else {
            self.browser.click(&button).await?;
        }
        let is = format!("document.querySelector('#state').textContent === {state:?}");
        self.browser.wait(state, &is, SOON).await?;
        Ok(())
    }

    /// Tests the commands start, pause and resume, and a start that is refused.
    async fn every_command(&mut self, by_keys: bool, lasts: Duration) -> Result<()> {
        let how = if by_keys { "by keys" } else { "by clicks" };
        self.press("start", "Running", by_keys).await?;
        self.is_refused(how, by_keys).await?;
        self.press("pause", "Paused", by_keys).await?;
        self.press("resume", "Running", by_keys).await?;
        let enabled = "return [...document.querySelectorAll('[data-command]:not(:disabled)')]
            .filter((button) => button.ariaDisabled !== 'true').map((button) => button.dataset.command).join(' ')";
        let enabled = self.browser.script(enabled).await?;
        self.report.yes(&format!("{how}: only pause and stop are offered"), enabled == "pause stop");
        tokio::time::sleep(lasts).await;
        Ok(())
    }

    /// Sends a start command while a run is active, and checks that the page shows evbd's refusal
    /// with reason and remedy.
    async fn is_refused(&mut self, how: &str, by_keys: bool) -> Result<()> {
        self.press("start", "Running", by_keys).await?;
        self.refusals += 1;
        let refused = "document.querySelector('#answer').textContent.includes('refused')";
        self.browser.wait("refused", refused, SOON).await?;
        let (code, told) = self.daemon.command("start")?;
        let answer = self.browser.text("#answer").await?;
        let words = ["refused_by", "reason", "remedy"].map(|key| told[key].as_str().unwrap_or_default());
        let is_told = code == 409 && words.iter().all(|word| !word.is_empty() && answer.contains(word));
        self.report.note(format!("{how}: {answer}"));
        self.report.yes(&format!("{how}: a refusal is told with its reason and remedy"), is_told);
        Ok(())
    }

    async fn stop(&mut self, name: &str, by_keys: bool) -> Result<Value> {
        self.press("stop", "Configured", by_keys).await?;
        let status = self.daemon.wait("a run that is over", |status| status["last_run"].is_object())?;
        let events = &status["last_run"]["events"];
        figures::at_rest(&self.browser, name, events, &mut self.report).await?;
        let note = self.browser.text("#ledger-note").await?;
        self.report.yes(&format!("{name}: the ledger is shown closed"), note.contains("closed"));
        Ok(status)
    }

    async fn by_clicks(&mut self) -> Result<()> {
        self.every_command(false, Duration::from_secs(3)).await?;
        self.stop("by clicks", false).await?;
        Ok(())
    }

    async fn by_keys(&mut self, good: Duration) -> Result<()> {
        self.tab_reaches_all().await?;
        self.browser.keys("k").await?;
        self.browser.keys("cosmics\u{e00c}").await?;
        self.browser.keys("m").await?;
        self.browser.keys(&format!("{COMMENT}\u{e00c}")).await?;
        self.every_command(true, Duration::ZERO).await?;
        figures::while_running(&self.browser, &self.daemon, &mut self.report).await?;
        house::stillness(&self.browser, &mut self.report).await?;
        tokio::time::sleep(good).await;
        let below = self.browser.text("#state-below").await?;
        self.report.yes(
            "kind and comment of the run are shown as text",
            below.contains(&format!("cosmics: {COMMENT}")),
        );
        charts::lines(&self.browser, &mut self.report).await?;
        let problems = self.browser.text("#problems").await?;
        self.report.note(format!("a good run: {}", problems.trim()));
        self.report.yes("a good run: no problems", problems.trim() == "No problems.");
        self.album.take(&self.browser, "good", &mut self.report).await
    }

    /// Checks that the tab key reaches every control of the page.
    async fn tab_reaches_all(&mut self) -> Result<()> {
        let wanted = "return [...document.querySelectorAll('a, button, input, select, textarea')]
            .filter((node) => node.checkVisibility() && !node.disabled).length";
        let wanted = self.browser.script(wanted).await?.as_u64().unwrap_or(u64::MAX);
        self.browser
            .script("document.activeElement.blur(); window.reached = new Set(); window.unseen = 0")
            .await?;
        // One more key press is needed than there are controls, because after the last control, no
        // control has the focus until the tab key is pressed again.
        for _ in 0..=wanted {
            self.browser.keys(TAB).await?;
            let note = "const node = document.activeElement;
                if (node === document.body) return;
                reached.add(node);
                if (getComputedStyle(node).outlineStyle === 'none') unseen++";
            self.browser.script(note).await?;
        }
        let found = self.browser.script("return [reached.size, unseen]").await?;
        self.report.yes("Tab reaches every control", found[0].as_u64() == Some(wanted));
        self.report.yes("and shows where it is", found[1] == 0);
        Ok(())
    }

    async fn silent_source(&mut self) -> Result<()> {
        self.daemon.signal("other", "STOP")?;
        tokio::time::sleep(TROUBLE).await;
        let problems = self.browser.text("#problems").await?;
        self.report.note(format!("a silent source: {problems}"));
        self.report.yes("a silent source is named first", problems.starts_with("source 6"));
        let first = self.browser.text("#sources tbody tr").await?;
        self.report.yes("and heads the list of sources", first.starts_with("6silent"));
        self.album.take(&self.browser, "silent-source", &mut self.report).await?;
        self.exclude_and_include().await?;
        self.daemon.signal("other", "CONT")?;
        self.stop("a silent source", false).await?;
        self.daemon.wait("ready again", |status| status["ready"] == true)?;
        Ok(())
    }

    /// Excludes the silent source on the page, and includes it again. Nothing happens without the
    /// confirmation.
    async fn exclude_and_include(&mut self) -> Result<()> {
        let exclusion = |status: &Value| {
            let sources = status["survey"]["sources"].as_array();
            sources.into_iter().flatten().find(|source| source["id"] == 6).map(|s| s["exclusion"].clone())
        };
        self.choose("exclude source 6", "its host hangs").await?;
        self.browser.click("#owing-cancel").await?;
        self.choose("exclude source 6", "its host hangs").await?;
        let before = self.daemon.wait("a status", |status| status["survey"].is_object())?;
        self.report
            .yes("a source is not excluded before the confirmation", exclusion(&before) == Some(Value::Null));
        self.browser.click("#owing-do").await?;
        let row = "document.querySelector('#sources tbody tr').textContent";
        self.browser.wait("excluded", &format!("{row}.startsWith('6excluded')"), SOON).await?;
        let after = self.daemon.wait("a status", |status| status["survey"].is_object())?;
        self.report
            .yes("a source is excluded with its reason", exclusion(&after) == Some("its host hangs".into()));
        self.choose("include source 6", "").await?;
        self.browser.click("#owing-do").await?;
        self.browser.wait("included", &format!("{row}.startsWith('6silent')"), SOON).await?;
        Ok(())
    }

    /// Opens the confirmation of an exclusion or inclusion, and fills it in.
    async fn choose(&self, what: &str, why: &str) -> Result<()> {
        self.browser.click("#open-owing").await?;
        let choose = format!(
            "const select = document.querySelector('#owing-what');
            select.value = [...select.options].find((option) => option.textContent.startsWith({what:?})).value;
            select.dispatchEvent(new Event('change'))"
        );
        self.browser.script(&choose).await?;
        self.browser.click("#owing-why").await?;
        self.browser.keys(why).await
    }

    async fn slow_sink(&mut self, disk: &Disk) -> Result<()> {
        if !disk.hangs() {
            self.report.note("SKIP a slow sink: no loop device here".to_owned());
            return Ok(());
        }
        self.press("start", "Running", false).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let slow = SlowDisk::new(disk);
        tokio::time::sleep(TROUBLE).await;
        let problems = self.browser.text("#problems").await?;
        let dead = self.browser.text("#chart-dead figcaption").await?;
        self.report.note(format!("a slow sink: {problems} | {dead}"));
        self.report.yes(
            "a slow sink is named first",
            problems.starts_with("sink of builder") || problems.starts_with("builder"),
        );
        self.report.yes("and in the chart of dead time", dead.contains("sink of builder"));
        self.album.take(&self.browser, "slow-sink", &mut self.report).await?;
        slow.heal()?;
        self.stop("a slow sink", false).await?;
        Ok(())
    }

    /// Ends evbd and starts it again, and checks that the page recovers without a reload.
    async fn new_daemon(&mut self) -> Result<()> {
        self.daemon.end("leader")?;
        let away = "document.querySelector('#state').textContent === 'Not connected'";
        let told = self.browser.wait("told that evbd is away", away, SOON).await?;
        let enabled =
            self.browser.script("return document.querySelectorAll('[data-command]:enabled').length").await?;
        self.report.yes("away: no command is offered", enabled == 0);
        self.report.noisy("away: told after, s", told.as_secs_f64(), Bound::AtMost(4.0));
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.daemon.start("leader", &LEADER)?;
        self.daemon.wait("there again", |_| true)?;
        let back = "document.querySelector('#link').textContent.startsWith('live')";
        let back = self.browser.wait("back", back, SOON).await?;
        self.report.noisy("back after, s", back.as_secs_f64(), Bound::AtMost(3.0));
        // Failed requests to the ended evbd are expected on the console; other errors are not.
        let entries = self.browser.console().await?;
        let others =
            entries.iter().filter(|(source, message)| source != "network" || !message.contains("net::ERR_"));
        self.report.holds("away: other errors on the console", others.count() as f64, Bound::AtMost(0.0));
        Ok(())
    }

    /// Shows two other systems, and returns to the first one.
    async fn other_systems(&mut self) -> Result<()> {
        for name in ["leader", "other"] {
            self.daemon.end(name)?;
        }
        self.readouts().await?;
        self.missed_trigger().await?;
        self.daemon.start("leader", &LEADER)?;
        self.daemon.start("other", &[OTHER])
    }

    /// Starts another system in a single process, and waits until the page shows it.
    async fn open(&self, name: &str, config: &str) -> Result<Daemon> {
        let folder = self.setting.out.join("page").join(name);
        let mut system = Daemon::new(&self.setting.evbd, &folder, config)?;
        system.start(name, &[])?;
        system.wait("ready", |status| status["ready"] == true)?;
        self.browser
            .wait("connected", "document.querySelector('#state').textContent === 'Configured'", SOON)
            .await?;
        Ok(system)
    }

    /// Shows a run in which the board of a source misses a trigger.
    async fn missed_trigger(&mut self) -> Result<()> {
        let mut system = self.open("missed-trigger", &MISSED_TRIGGER.replace("events = 10_000", "")).await?;
        // The charts show this run alone.
        self.browser.open(&format!("http://{CONTROL}/")).await?;
        self.press("start", "Running", false).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.wait_for_problem("the missed trigger", "it missed 1 trigger").await?;
        let problems = self.browser.text("#problems").await?;
        self.report.note(format!("a missed trigger: {problems}"));
        self.report.yes(
            "a missed trigger is named first, with its source and event",
            problems.starts_with("source 5 (calo)") && problems.contains("since event 5000"),
        );
        let first = self.browser.text("#sources tbody tr").await?;
        self.report
            .yes("and its source heads the list", first.starts_with('5') && first.contains("misaligned"));
        self.album.take(&self.browser, "missed-trigger", &mut self.report).await?;
        self.press("stop", "Configured", false).await?;
        system.end("missed-trigger")
    }

    /// Shows a run with front ends, of which one closes its connection, and later one hangs.
    async fn readouts(&mut self) -> Result<()> {
        let mut edge = self.open("readouts", READOUTS).await?;
        self.wait_for_problem("who has no front end before the run", "no front end is connected").await?;
        self.press("start", "Running", false).await?;
        let begun = Instant::now();
        let boards = (7201..=7204).map(|port| Board::start(port, begun)).collect::<Result<Vec<_>>>()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.wait_for_problem("a good run", "No problems.").await?;
        boards[2].die();
        let told = self.wait_for_problem("the closed connection", "source 3 (silicon tracker)").await?;
        self.report.noisy("from a closed connection to its name, s", told.as_secs_f64(), Bound::AtMost(2.0));
        let problems = self.browser.text("#problems").await?;
        self.report.note(format!("a closed connection: {problems}"));
        self.report.yes("with its remedy", problems.contains("start its front end again"));
        boards[2].revive()?;
        let is_back = "!document.querySelector('#problems').textContent.includes('no readout')";
        self.browser.wait("back", is_back, SOON).await?;
        boards[0].hang();
        let told = self.wait_for_problem("the front end that hangs", "source 1 (TPC crate 1)").await?;
        // The deadline is 1 s.
        self.report.noisy("from a hanging front end to its name, s", told.as_secs_f64(), Bound::AtMost(3.0));
        let problems = self.browser.text("#problems").await?;
        self.report
            .yes("with its remedy too", problems.contains("check that its front end runs and gets triggers"));
        self.album.take(&self.browser, "no-readout", &mut self.report).await?;
        self.press("stop", "Configured", false).await?;
        edge.end("readouts")
    }

    /// Waits until the list of problems contains these words; returns how long that took.
    async fn wait_for_problem(&self, what: &str, words: &str) -> Result<Duration> {
        let is = format!("document.querySelector('#problems').textContent.includes({words:?})");
        self.browser.wait(what, &is, SOON).await
    }

    /// Shows the page a made-up status of 320 peers; other tests run evbd itself with that number
    /// of peers.
    async fn large_system(&mut self) -> Result<()> {
        self.daemon.wait("a survey", |status| status["survey"]["builders"][0].is_object())?;
        self.browser.script(include_str!("large.js")).await?;
        let is_large = "document.querySelector('#sources .note').textContent.includes('of 256')";
        self.browser.wait("256 sources", is_large, SOON).await?;
        let found = self.browser.script("return window.large()").await?;
        let [first, all, rows] = [0, 1, 2].map(|place| found[place].as_f64().unwrap_or(f64::NAN));
        self.report.noisy(
            "256 sources, 64 builders: from their status to the screen, ms",
            first,
            Bound::AtMost(1000.0),
        );
        self.report.noisy("all of them as rows, ms", all, Bound::AtMost(1000.0));
        if rows != 320.0 {
            bail!("{rows} rows of 320 peers");
        }
        Ok(())
    }
}
