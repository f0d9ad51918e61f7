//! `evbd` under run control: its processes, and its answers.

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
use serde_json::Value;

use crate::lab::guard::Guarded;

/// Address at which run control listens; inside its own namespaces, every port is free.
pub(crate) const CONTROL: &str = "127.0.0.1:7900";

const WITHIN: Duration = Duration::from_secs(20);

/// The processes of one system, by name.
pub(crate) struct Daemon {
    evbd: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    processes: Vec<(String, Guarded)>,
}

impl Daemon {
    /// Creates a system of which no process runs yet.
    pub(crate) fn new(evbd: &Path, folder: &Path, config: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("evb.toml");
        fs::write(&path, config).with_context(|| path.display().to_string())?;
        Ok(Self { evbd: evbd.to_owned(), config: path, folder: folder.to_owned(), processes: Vec::new() })
    }

    /// Starts one more process, with these roles.
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

    /// Sends a signal to a process; `signal` is a name as `kill` knows it.
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

    /// Ends a process as a crash would.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        drop(self.take(name)?);
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Guarded> {
        let place = self.processes.iter().position(|(known, _)| known == name).context("no such process")?;
        Ok(self.processes.remove(place).1)
    }

    /// Ends a process as systemd would, and waits until it is gone.
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

    /// Returns the status, which needs no token.
    pub(crate) fn status(&self) -> Result<Value> {
        let (code, answer) = ask("GET", "/v1/status")?;
        if code != 200 {
            bail!("the status answers {code}: {answer}");
        }
        Ok(answer)
    }

    /// Replaces the configuration and activates the new one.
    pub(crate) fn configure(&self, config: &str) -> Result<()> {
        fs::write(&self.config, config).with_context(|| self.config.display().to_string())?;
        match self.command("configure")? {
            (200, _) => Ok(()),
            (_, answer) => bail!("the configuration is refused: {answer}"),
        }
    }

    /// Sends a command without a browser.
    pub(crate) fn command(&self, name: &str) -> Result<(u16, Value)> {
        ask("POST", &format!("/v1/{name}"))
    }

    /// Waits until the status satisfies `is`.
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

/// Sends a request, and returns status code and JSON of the answer.
pub(crate) fn ask(method: &str, path: &str) -> Result<(u16, Value)> {
    let (code, body) = text(method, path)?;
    Ok((code, serde_json::from_str(&body).with_context(|| format!("not JSON: {body}"))?))
}

/// Sends a request, and returns status code and text of the answer.
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
