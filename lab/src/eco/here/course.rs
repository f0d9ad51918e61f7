//! The steps of the test of `evbd run --here` on ten hosts.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use lab_base::{guard::Guarded, setting::Setting};
use serde_json::Value;

use crate::eco::hosts::{Host, Hosts, closes, said, until, wait};

const HOSTS: u16 = 10;
/// Longest time that a run of ten hosts may take, if they share two cores.
const LIMIT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(20);

/// A configuration that names builders by host name, IPv6 address and a second IPv4 address, and
/// sources by host name, by name with domain, and by IPv6 and IPv4 address.
const MIXED: &str = r#"
[supervisor]
listen  = "10.79.0.1:7000"
trigger = "as-fast-as-possible"
# Ten programs share two cores here, so the deadlines are long enough for slow peers.
on_source_loss = "wait"
lease          = "5 s"
deadline       = "20 s"
[security]
mode = "none"
[[builder]]
id     = 1
listen = "h2:7101"
sink   = "null"
[[builder]]
id     = 2
listen = "[fd79::3]:7102"
sink   = "null"
[[builder]]
id     = 3
listen = "192.168.79.4:7103"
sink   = "null"
[[source]]
ids   = "5-6"
host  = "h{id}"
input = { kind = "generator", size = "1 kB" }
[[source]]
id    = 7
host  = "h7.daq.example"
input = { kind = "generator", size = "1 kB" }
[[source]]
id    = 8
host  = "fd79::8"
input = { kind = "generator", size = "1 kB" }
[[source]]
ids   = "9-10"
host  = "192.168.79.{id}"
input = { kind = "generator", size = "1 kB" }
"#;

/// A configuration with IPv6 addresses only, in which sources are identified by their `bind`
/// address.
const SIX: &str = r#"
[supervisor]
listen  = "[fd79::1]:7000"
trigger = "as-fast-as-possible"
on_source_loss = "wait"
lease          = "5 s"
deadline       = "20 s"
[security]
mode = "none"
[[builder]]
ids    = "2-4"
listen = "[fd79::{id}]:{7100+id}"
sink   = "null"
[[source]]
ids   = "5-10"
bind  = "fd79::{id}"
input = { kind = "generator", size = "1 kB" }
"#;

const LOOPBACK: &str = r#"
[supervisor]
listen  = "127.0.0.1:7000"
trigger = { kind = "periodic", rate = "1 kHz" }
[[builder]]
id     = 1
listen = "127.0.0.1:7101"
sink   = "null"
[[source]]
ids   = "1-3"
input = { kind = "generator", size = "1 kB" }
"#;

struct Course<'a> {
    setting: &'a Setting,
    folder: PathBuf,
    hosts: Hosts,
}

/// Runs the whole test of ten hosts inside its own namespaces; an error names the check that
/// failed.
pub(super) fn run(setting: &Setting, events: u64) -> Result<()> {
    let folder = setting.out.join("here");
    fs::create_dir_all(&folder)?;
    let host = |number: u16| Host {
        name: format!("h{number}"),
        addresses: vec![
            format!("10.79.0.{number}/24"),
            format!("192.168.79.{number}/24"),
            // The host number is decimal, because a template such as `fd79::{id}` in the
            // configuration inserts a decimal number.
            format!("fd79::{number}/64"),
        ],
    };
    // The last host, h11, is in no configuration.
    let all: Vec<Host> = (1..=HOSTS + 1).map(host).collect();
    let line = |number: u16| format!("10.79.0.{number} h{number} h{number}.daq.example\n");
    let names: String = (1..=HOSTS + 1).map(line).collect();
    let hosts = Hosts::up(&folder, &all, &format!("127.0.0.1 localhost\n{names}"))?;
    let course = Course { setting, folder, hosts };
    course.builds("mixed", MIXED, events)?;
    course.builds("six", SIX, events)?;
    course.joins_run_after_run()?;
    course.tells_typos()?;
    course.keeps_loopback_to_one_host()
}

impl Course<'_> {
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{name}.toml"));
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Starts `evbd run CONFIG --here` on a host, with a log and a summary of its own.
    fn start(&self, host: &str, config: &Path) -> Result<Guarded> {
        let name = config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let log = File::create(self.log(host, &name))?;
        let mut command = self.evbd(host);
        command.args(["run", "--here", "--quiet"]).arg(config);
        command.arg("--summary").arg(self.folder.join(format!("{name}.{{host}}.json")));
        command.stdout(log.try_clone()?).stderr(log).env("EVBD_LOG", "info");
        Ok(Guarded(command.spawn().context("evbd does not start")?))
    }

    fn evbd(&self, host: &str) -> Command {
        self.hosts.command(host, &self.setting.evbd.to_string_lossy())
    }

    fn log(&self, host: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{host}.log"))
    }

    fn summary(&self, name: &str, host: &str) -> Result<Value> {
        let path = self.folder.join(format!("{name}.{host}.json"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Starts `evbd run CONFIG --here` on each of the ten hosts.
    fn start_all(&self, config: &Path) -> Result<Vec<(String, Guarded)>> {
        let names = (1..=HOSTS).map(|number| format!("h{number}"));
        names.map(|host| Ok((host.clone(), self.start(&host, config)?))).collect()
    }

    fn ends_well(&self, name: &str, started: Vec<(String, Guarded)>) -> Result<()> {
        for (host, mut process) in started {
            let code = wait(&mut process.0, LIMIT).with_context(|| format!("{name} on {host}"))?;
            let said = fs::read_to_string(self.log(&host, name)).unwrap_or_default();
            ensure!(code == 0, "{name} on {host}: exit code {code}: {said}");
        }
        Ok(())
    }

    /// Checks that ten hosts that were started by the same command build all events of one run
    /// together.
    fn builds(&self, name: &str, config: &str, events: u64) -> Result<()> {
        let config = self.write(name, &format!("[run]\nevents = {events}\n{config}"))?;
        let began = Instant::now();
        self.ends_well(name, self.start_all(&config)?)?;
        let summary = self.summary(name, "h1")?;
        let complete = &summary["events"]["complete"];
        ensure!(*complete == events && closes(&summary), "{name}: {}", summary["verdict"]);
        println!(
            "{name}: {HOSTS} hosts, {complete} events complete in {:.1} s",
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Checks that with run control (`[control]`), the evbd processes on the other hosts take part
    /// in a second run without a restart.
    fn joins_run_after_run(&self) -> Result<()> {
        let name = "control";
        let config = self.write(name, &format!("[run]\nevents = 2000\n{MIXED}\n[control]\n"))?;
        let mut started = self.start_all(&config)?;
        let ctl = |words: &[&str]| said(self.evbd("h1").arg("ctl").args(words));
        let has_ended = |run: u64| {
            let status = ctl(&["status", "--json"]).unwrap_or_default();
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            status["last_run"]["run"] == run && status["ready"] == true
        };
        until("ready", SOON, || ctl(&["start"]).is_ok())?;
        until("over", LIMIT, || has_ended(1))?;
        ctl(&["start"])?;
        until("over for the second time", LIMIT, || has_ended(2))?;
        for (_, process) in &mut started {
            signal(&process.0, "TERM")?;
        }
        self.ends_well(name, started)?;
        let summary = self.summary(name, "h1")?;
        ensure!(summary["run"] == 2 && summary["events"]["complete"] == 2000, "{}", summary["verdict"]);
        println!("control: two runs of {HOSTS} hosts that were started once");
        Ok(())
    }

    /// Checks that evbd on a host that is missing or misspelt in the configuration fails at once
    /// with an error that names the host.
    fn tells_typos(&self) -> Result<()> {
        let name = self.write("name", &MIXED.replace("h2:7101", "h22:7101"))?;
        let address = self.write("address", &MIXED.replace("fd79::3", "fd79::33"))?;
        let nowhere = self.write("nowhere", &MIXED.replace("host  = \"fd79::8\"\n", ""))?;
        let cases: [(&str, &Path, &[&str]); 4] = [
            (
                "h11",
                &name,
                &["no role of", "this host is h11: 10.79.0.11 (e0), 192.168.79.11 (e0)", "fd79::11"],
            ),
            (
                "h2",
                &name,
                &[
                    "builder 1  (not known here",
                    "`h22` has no address here: if it is this host, correct its spelling",
                    "10.79.0.2 (e0)",
                ],
            ),
            ("h3", &address, &["fd79::33", "builder 2", "fd79::3 (e0)"]),
            ("h5", &nowhere, &["which host runs source 8", "add host = ", "= key: source.host"]),
        ];
        for (host, config, says) in cases {
            let began = Instant::now();
            let mut process = self.start(host, config)?;
            let code = wait(&mut process.0, SOON)?;
            let stem = config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let words = fs::read_to_string(self.log(host, &stem))?;
            ensure!(code == 2, "{stem} on {host}: exit code {code}: {words}");
            for part in says {
                ensure!(words.contains(part), "{stem} on {host} does not say `{part}`: {words}");
            }
            println!("{stem} on {host}: refused in {:.1} s, by name", began.elapsed().as_secs_f64());
        }
        // On the other hosts, a configuration with a misspelt host is accepted, with a warning that
        // names the unknown host.
        let checked = self.evbd("h5").args(["check", "--here"]).arg(&name).output()?;
        let words = String::from_utf8_lossy(&checked.stderr).into_owned();
        ensure!(
            checked.status.code() == Some(0) && words.contains("builder 1: the host `h22` is not known here"),
            "{words}"
        );
        Ok(())
    }

    /// Checks that a configuration with loopback addresses runs on the first host that starts it,
    /// and is refused on a second host.
    fn keeps_loopback_to_one_host(&self) -> Result<()> {
        let config = self.write("loopback", LOOPBACK)?;
        let first = self.start("h1", &config)?;
        let log = |host: &str| fs::read_to_string(self.log(host, "loopback")).unwrap_or_default();
        until("hosted", SOON, || log("h1").contains("the whole system is on this host"))?;
        let mut second = self.start("h2", &config)?;
        let (code, words) = (wait(&mut second.0, SOON)?, log("h2"));
        ensure!(code == 1 && words.contains("belongs to one host"), "exit code {code}: {words}");
        signal(&first.0, "TERM")?;
        self.ends_well("loopback", vec![("h1".to_owned(), first)])?;
        println!("loopback: one host has the system, and the second one is told");
        Ok(())
    }
}

fn signal(child: &Child, name: &str) -> Result<()> {
    said(Command::new("kill").args(["-s", name, &child.id().to_string()]).stdin(Stdio::null())).map(drop)
}
