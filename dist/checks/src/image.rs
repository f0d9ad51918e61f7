//! Checks the container image: its size, its user, and a run of the quickstart in a container whose
//! file system cannot be written.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use lab_base::report::{Bound, Report};
use serde_json::{Value, json};

use super::{execute, programs::has_notices, release::Files};

/// The largest allowed size of the image, packed or not, in bytes, if it is optimized.
const LARGEST: f64 = 15e6;
const CONFIG: &str = "/usr/share/evb/quickstart.toml";

pub(super) fn check(files: &Files, quick: bool, folder: &Path, report: &mut Report) -> Result<()> {
    let largest = Bound::AtMost(if quick { 3.0 * LARGEST } else { LARGEST });
    let size = fs::metadata(&files.image)?.len() as f64;
    report.holds("bytes of the image's archive", size, largest);
    let (layout, bundle) = (folder.join("layout"), folder.join("bundle"));
    fs::create_dir_all(&layout)?;
    execute(Command::new("tar").arg("-xf").arg(&files.image).arg("-C").arg(&layout))?;
    let index: Value = serde_json::from_str(&fs::read_to_string(layout.join("index.json"))?)?;
    let name = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
    let image = format!("{}:{}", layout.display(), name.as_str().context("the image has no name")?);
    execute(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle))?;
    let notices = bundle.join("rootfs/usr/share/doc/evbd");
    report.yes("the image has the notices of all that is in it", has_notices(&notices));
    let used = execute(Command::new("du").args(["--summarize", "--bytes"]).arg(bundle.join("rootfs")))?;
    let used = used.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(f64::NAN);
    report.holds("bytes of the unpacked image", used, largest);

    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    let user = config["process"]["user"]["uid"].as_f64().unwrap_or(0.0);
    report.holds("the image's user", user, Bound::AtLeast(1.0));
    let evbd = config["process"]["args"][0].as_str().unwrap_or_default().to_owned();
    let mut last = String::new();
    for (arguments, what) in [
        (vec!["run", "--quiet", CONFIG], "a read-only container runs the quickstart"),
        (vec!["verify", "out/quickstart"], "a read-only container verifies the event files"),
    ] {
        let all: Vec<&str> = [evbd.as_str()].into_iter().chain(arguments).collect();
        contain(&mut config, &all, Some(folder), user)?;
        fs::write(&path, serde_json::to_string(&config)?)?;
        let said = contained(&bundle, folder);
        report.yes(what, said.is_ok());
        last = said.unwrap_or_else(|error| format!("{error:#}"));
    }
    let complete = last.lines().any(|line| line.split_whitespace().eq(["complete", "10000"]));
    report.yes("all 10 000 events of the quickstart in a container are complete", complete);
    if !complete {
        println!("{last}");
    }
    contain(&mut config, &[&evbd, "run", "--quiet", CONFIG], None, user)?;
    fs::write(&path, serde_json::to_string(&config)?)?;
    report
        .yes("without a folder for event files, nothing can be written", contained(&bundle, folder).is_err());
    Ok(())
}

/// Restricts a container: no terminal, no rights, nothing to write but a folder for event files in
/// `folder`, or nothing at all.
fn contain(config: &mut Value, arguments: &[&str], folder: Option<&Path>, user: f64) -> Result<()> {
    config["root"]["readonly"] = json!(true);
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(arguments);
    config["process"]["capabilities"] = json!({});
    config["process"]["noNewPrivileges"] = json!(true);
    let mounts = config["mounts"].as_array_mut().context("the container has mounts")?;
    mounts.retain(|mount| mount["destination"] != "/var/lib/evb" && mount["type"] != "cgroup");
    let Some(data) = folder.map(|folder| folder.join("data")) else { return Ok(()) };
    fs::create_dir_all(&data)?;
    std::os::unix::fs::chown(&data, Some(user as u32), Some(user as u32))?;
    mounts.push(json!({
        "destination": "/var/lib/evb", "type": "bind", "source": data, "options": ["bind", "rw", "nosuid", "nodev"]
    }));
    Ok(())
}

/// Runs the container to its end, and returns what it prints.
fn contained(bundle: &Path, folder: &Path) -> Result<String> {
    let mut runc = Command::new("runc");
    runc.arg("--root").arg(folder.join("runc")).args(["run", "--bundle"]).arg(bundle);
    execute(runc.arg(format!("evb-{}", std::process::id())))
}
