//! Runs the tests of the workspace in a place where everything is missing that README.md does not
//! require: a root file system with the toolchain, `cc`, coreutils and a shell; a user without
//! rights, who cannot make a user namespace either; the usual limits of a shell; a network that has
//! only a loopback device, without IPv6. The programs are those that `cargo test --workspace` has
//! built, without those of the pure crates, which ask the machine for nothing.

mod programs;
mod inside;

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use checkout::SKIPPED;
use clap::Args;

use self::programs::TestProgram;

/// Script that makes the root of the bare place.
const MAKE: &str = include_str!("bare/make.sh");

/// Script that makes the place, and enters it. `chroot` also keeps the user from making a user
/// namespace, which would give back the rights that the user lacks.
const ENTER: &str = r#"
base=$1; checkout=$2
sh -c "$MAKE" make.sh "$@" || { echo "SKIP: the bare place cannot be made here; it says why above"; exit 77; }
shift 4
exec setpriv --no-new-privs chroot --userspec=1000:1000 --groups= "$base/root" \
  sh -c 'ulimit -n 1024; ulimit -l 64; exec env -i "$@"' sh "$@"
"#;

/// Programs that make the place.
const NEEDS: [&str; 7] = ["unshare", "setpriv", "mount", "chroot", "ip", "find", "sh"];

#[derive(Args)]
pub(crate) struct BareArgs {
    /// Run only the test programs whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Run the programs of the pure crates too: minutes of simulation.
    #[arg(long)]
    all: bool,
    /// Fail if the place cannot be made on this machine, instead of skipping the tests.
    #[arg(long)]
    require: bool,
    /// Run the programs of this list, because this process is in the place already.
    #[arg(long, hide = true)]
    list: Option<PathBuf>,
}

/// Runs the tests, and returns the exit code: 0, 1 if a test fails, or [`SKIPPED`].
pub(crate) fn run(args: &BareArgs) -> Result<u8> {
    if let Some(list) = &args.list {
        let all: Vec<TestProgram> = serde_json::from_slice(&fs::read(list)?)?;
        return inside::run(&all).map(|passed| u8::from(!passed));
    }
    let code = match lacks() {
        Some(reason) => {
            println!("SKIP: {reason}");
            SKIPPED
        }
        None => enter(args)?,
    };
    ensure!(
        code != SKIPPED || !args.require,
        "--require asks for the bare place, which cannot be made here; the reason stands above"
    );
    Ok(code)
}

/// Returns the reason why the place cannot be made; `None` if it may be possible.
fn lacks() -> Option<String> {
    if checkout::said("id", &["-u"]).is_none_or(|id| id.trim() != "0") {
        return Some("the bare place can only be made by root: run this as root".to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let missing = |name: &&&str| !env::split_paths(&path).any(|folder| folder.join(**name).is_file());
    let missing: Vec<&str> = NEEDS.iter().filter(missing).copied().collect();
    (!missing.is_empty())
        .then(|| format!("the bare place needs {}, which is not installed", missing.join(", ")))
}

/// Runs the test programs in two places at a time, and returns the exit code.
fn enter(args: &BareArgs) -> Result<u8> {
    let root = checkout::root();
    let own = env::current_exe()?;
    ensure!(own.starts_with(&root), "{} is not in the checkout, which the place shows", own.display());
    let mut all = programs::built()?;
    all.retain(|program| program.name.contains(&args.only) && (args.all || !program.is_pure()));
    ensure!(!all.is_empty(), "no test program has `{}` in its name", args.only);
    let folder = own.ancestors().nth(2).context("this program is in no target folder")?.join("bare");
    // Most tests wait more than they compute. Each place has a network of its own, so that tests do
    // not take each other's ports.
    let halves: [Vec<_>; 2] = [0, 1].map(|half| all.iter().skip(half).step_by(2).collect());
    let codes = thread::scope(|scope| {
        let places = halves.iter().enumerate().filter(|(_, half)| !half.is_empty());
        let places: Vec<_> = places
            .map(|(number, half)| {
                let folder = folder.join(format!("{number}"));
                let (root, own) = (&root, &own);
                scope.spawn(move || enter_one(&folder, half, root, own))
            })
            .collect();
        let panicked = |_| Err(anyhow!("a thread has panicked"));
        let codes = places.into_iter().map(|place| place.join().unwrap_or_else(panicked));
        codes.collect::<Result<Vec<u8>>>()
    })?;
    Ok(codes.into_iter().max().unwrap_or_default())
}

/// Makes one place, and runs this program again there, which runs these test programs.
fn enter_one(folder: &Path, programs: &[&TestProgram], root: &Path, own: &Path) -> Result<u8> {
    fs::create_dir_all(folder.join("base"))?;
    let list = folder.join("programs.json");
    fs::write(&list, serde_json::to_vec(programs)?)?;
    let sysroot = checkout::said("rustc", &["--print", "sysroot"]).context("rustc does not run")?;
    let sysroot = Path::new(sysroot.trim());
    let cargo_home = match env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&env::var_os("HOME").context("no HOME")?).join(".cargo"),
    };
    // `find` and others of the script may be where only the `PATH` of root leads.
    let path = format!("{}:/usr/sbin:/sbin", env::var("PATH")?);
    let status = Command::new("unshare")
        .args(["--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"])
        .args([&folder.join("base"), root])
        .args([sysroot, &cargo_home])
        .args(environment(sysroot, &cargo_home))
        .args([own.as_os_str(), "bare".as_ref(), "--list".as_ref(), list.as_os_str()])
        .envs([("MAKE", MAKE), ("PATH", &path)])
        .stdin(Stdio::null())
        .status()
        .context("unshare does not start")?;
    let code = status.code().with_context(|| format!("killed by signal {:?}", status.signal()))?;
    Ok(u8::try_from(code)?)
}

/// Returns the environment of the place as assignments. Of the variables of this process, it has
/// those that change what cargo builds, because a test that calls cargo must find everything built.
fn environment(sysroot: &Path, cargo_home: &Path) -> Vec<String> {
    let kept = |name: &str| {
        name == "RUSTFLAGS"
            || [
                "CARGO_INCREMENTAL",
                "CARGO_ENCODED_RUSTFLAGS",
                "CARGO_PROFILE_",
                "CARGO_BUILD_",
                "CARGO_TARGET_",
            ]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let own = [
        ("PATH", format!("{}/bin:/usr/bin", sysroot.display())),
        ("HOME", "/user".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        ("CARGO_HOME", cargo_home.display().to_string()),
        ("CARGO_NET_OFFLINE", "true".to_owned()),
    ];
    let assign = |(name, value): (&str, &str)| format!("{name}={value}");
    let taken = env::vars().filter(|(name, _)| kept(name));
    let taken = taken.map(|(name, value)| assign((&name, &value)));
    own.iter().map(|(name, value)| assign((name, value))).chain(taken).collect()
}
