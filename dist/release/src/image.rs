//! The container image: the static program and nothing else, for a user without rights.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{Release, binary::Binary, copy, finish, notices, tarball::tar};

/// Id of the user and of the group that run evbd in a container. Images without root rights
/// commonly use this number, and no system gives it to a person.
const USER: &str = "65532";

/// Writes the image as an archive in the format of OCI, which podman, docker and skopeo read.
pub(super) fn write(release: &Release, evbd: &Binary) -> Result<()> {
    let folder = release.staged("image")?;
    let layer = layer(release, evbd, &folder)?;
    let layout = folder.join("layout");
    let image = format!("{}:{}", layout.display(), release.version);
    let umoci =
        |arguments: &[&str]| finish(Command::new("umoci").args(arguments)).context("apt-get install umoci");
    umoci(&["init", "--layout", &layout.to_string_lossy()])?;
    umoci(&["new", "--image", &image])?;
    let created = format!("--history.created={}", created(&release.time)?);
    umoci(&["raw", "add-layer", "--image", &image, &created, &layer])?;
    let user = format!("--config.user={USER}:{USER}");
    umoci(&[
        "config",
        "--image",
        &image,
        "--no-history",
        &user,
        "--config.entrypoint=/usr/bin/evbd",
        "--config.cmd=run",
        "--config.cmd=/etc/evb/evb.toml",
        "--config.workingdir=/var/lib/evb",
        "--config.volume=/var/lib/evb",
        &format!("--created={}", self::created(&release.time)?),
        &format!("--config.label=org.opencontainers.image.version={}", release.version),
        "--config.label=org.opencontainers.image.licenses=MIT OR Apache-2.0",
        "--config.label=org.opencontainers.image.source=https://github.com/evb-daq/evb",
    ])?;
    umoci(&["gc", "--layout", &layout.to_string_lossy()])?;
    let archive = release.out.join(format!("evbd-{}-{}-oci.tar", release.version, std::env::consts::ARCH));
    let mut tar = tar(release);
    tar.args(["--owner=0", "--group=0", "--create", "--file"]).arg(&archive).arg("-C").arg(&layout);
    finish(tar.args(["blobs", "index.json", "oci-layout"]))?;
    println!("{}", archive.display());
    Ok(())
}

/// Writes the only layer of the image as an archive, and returns its path.
fn layer(release: &Release, evbd: &Binary, folder: &Path) -> Result<String> {
    let (root, own) = (folder.join("root"), folder.join("own"));
    copy(&evbd.program, &root.join("usr/bin"), "evbd")?;
    let etc = root.join("etc");
    fs::create_dir_all(etc.join("evb"))?;
    fs::write(etc.join("passwd"), format!("root:x:0:0:root:/:\nevb:x:{USER}:{USER}:evb:/var/lib/evb:\n"))?;
    fs::write(etc.join("group"), format!("root:x:0:\nevb:x:{USER}:\n"))?;
    copy(&release.root.join("examples/quickstart.toml"), &root.join("usr/share/evb"), "quickstart.toml")?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&release.root.join(name), &root.join("usr/share/doc/evbd"), name)?;
    }
    notices::write(release, notices::EVBD, &root.join("usr/share/doc/evbd"))?;
    // The only folder that evbd may write to belongs to its user.
    fs::create_dir_all(own.join("var/lib/evb"))?;
    let layer = folder.join("layer.tar");
    let mut first = tar(release);
    first.args(["--owner=0", "--group=0", "--create", "--file"]).arg(&layer).arg("-C").arg(&root);
    finish(first.args(["etc", "usr"]))?;
    let mut second = tar(release);
    second.args([format!("--owner={USER}"), format!("--group={USER}")]);
    second.args(["--append", "--file"]).arg(&layer).arg("-C").arg(&own);
    finish(second.arg("var/lib/evb"))?;
    Ok(layer.to_string_lossy().into_owned())
}

/// Returns a time, in seconds since 1970, in the format of RFC 3339.
fn created(seconds: &str) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--date"]).arg(format!("@{seconds}")).arg("+%Y-%m-%dT%H:%M:%SZ");
    let output = date.output().context("date does not start")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
