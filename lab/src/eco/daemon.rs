//! An evb system under run control: starts and ends its `evbd` processes, sends commands, and reads
//! the status.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use lab_base::guard::Guarded;
use serde_json::Value;

/// Address at which evbd's run control listens; a fixed port is possible, because the test runs in
/// its own network namespace.
pub(crate) const CONTROL: &str = "127.0.0.1:7900";

const WITHIN: Duration = Duration::from_secs(20);

/// The evbd processes of one system, each with a name.
pub(crate) struct Daemon {
    evbd: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    processes: Vec<(String, Guarded)>,
}

impl Daemon {
    /// Writes the configuration of a system, and starts no process yet.
    pub(crate) fn new(evbd: &Path, folder: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("evb.toml");
        fs::write(&path, config).with_context(|| path.display().to_string())?;
        Ok(Self { evbd: evbd.to_owned(), config: path, folder: folder.to_owned(), processes: Vec::new() })
    }

    /// Starts an evbd process with these roles.
    pub(crate) fn start(&mut self, name: &str, roles: &[&str]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.join(format!("{name}.log")))?;
        let mut command = Command::new(&self.evbd);
        command.args(["run", "--quiet", "--control"]).arg(&self.config).current_dir(&self.folder);
        command.args(roles.iter().flat_map(|role| ["--role", role]));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| self.evbd.display().to_string())?;
        self.processes.push((name.to_owned(), Guarded(child)));
        Ok(())
    }

    /// Sends a signal to a process; `signal` is a name such as `TERM`.
    pub(crate) fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let (_, process) =
            self.processes.iter().find(|(known, _)| known == name).context("no such process")?;
        let id = process.0.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status()?;
        if !sent.success() {
            bail!("{name} is not there for SIG{signal}");
        }
        Ok(())
    }

    /// Kills a process with SIGKILL, like a crash.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        drop(self.take(name)?);
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Guarded> {
        let place = self.processes.iter().position(|(known, _)| known == name).context("no such process")?;
        Ok(self.processes.remove(place).1)
    }

    /// Ends a process with SIGTERM, as systemd does, and waits until it has ended.
    pub(crate) fn end(&mut self, name: &str) -> Result<()> {
        self.signal(name, "TERM")?;
        let mut process = self.take(name)?;
        let until = Instant::now() + WITHIN;
        while process.0.try_wait()?.is_none() {
            if Instant::now() > until {
                bail!("{name} does not end");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Requests the status of the system from run control.
    pub(crate) fn status(&self) -> Result<Value> {
        let (code, answer) = ask("GET", "/v1/status")?;
        if code != 200 {
            bail!("the status answers {code}: {answer}");
        }
        Ok(answer)
    }

    /// Replaces the configuration file and makes run control load it.
    pub(crate) fn configure(&self, config: &str) -> Result<()> {
        fs::write(&self.config, config).with_context(|| self.config.display().to_string())?;
        match self.command("configure")? {
            (200, _) => Ok(()),
            (_, answer) => bail!("the configuration is refused: {answer}"),
        }
    }

    /// Sends a command to run control over HTTP, and returns status code and JSON of the answer.
    pub(crate) fn command(&self, name: &str) -> Result<(u16, Value)> {
        ask("POST", &format!("/v1/{name}"))
    }

    /// Waits until the status of the system satisfies `is`, and returns it.
    pub(crate) fn wait(&self, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + WITHIN;
        loop {
            let status = self.status();
            match status {
                Ok(status) if is(&status) => return Ok(status),
                status if Instant::now() > until => bail!("never {what}: {status:?}"),
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// Sends an HTTP request to run control, and returns status code and JSON of the answer.
pub(crate) fn ask(method: &str, path: &str) -> Result<(u16, Value)> {
    let (code, body) = text(method, path)?;
    Ok((code, serde_json::from_str(&body).with_context(|| format!("not JSON: {body}"))?))
}

/// Sends an HTTP request to run control, and returns status code and text of the answer.
pub(crate) fn text(method: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(CONTROL)?;
    stream.set_read_timeout(Some(WITHIN))?;
    let kind = "Content-Type: application/json\r\nContent-Length: 0";
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {CONTROL}\r\nConnection: close\r\n{kind}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no answer")?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    Ok((code, body.to_owned()))
}
