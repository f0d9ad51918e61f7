//! The programs that a part of the test requires.

use std::{env, path::Path};

/// A required program, and the Debian package that contains it.
pub struct Need {
    pub program: &'static str,
    pub package: &'static str,
}

/// Returns a message that lists the missing programs and how to install them; `None` if the part
/// can run.
pub fn missing(needs: &[Need], takes_root: bool) -> Option<String> {
    let absent: Vec<&Need> = needs.iter().filter(|need| !is_there(need.program)).collect();
    if absent.is_empty() {
        return (takes_root && !is_root()).then(|| "namespaces need root".to_owned());
    }
    let programs: Vec<_> = absent.iter().map(|need| need.program).collect();
    let packages: Vec<_> = absent.iter().map(|need| need.package).collect();
    Some(format!("no {} here: apt-get install {}", programs.join(", "), packages.join(" ")))
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    // An ordinary user's `PATH` may lack these folders, in which Debian installs system programs.
    folders.extend(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned()));
    folders.iter().any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
