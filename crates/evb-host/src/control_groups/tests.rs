use super::*;

/// A machine's files, as far as control groups concern them.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(cgroup: &str, mounts: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.write("proc/self/cgroup", cgroup);
        machine.write("proc/self/mountinfo", &mounts.join("\n"));
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn limits(&self) -> (Option<u64>, Option<f64>) {
        (memory_limit_in(self.0.path()).map(Bytes::count), processor_limit_in(self.0.path()))
    }
}

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

/// A job of Slurm with `--mem=4G --cpus-per-task=6`: the job has the limits, and its step none.
#[test]
fn a_slurm_job() {
    let step = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0";
    let machine = Machine::new(&format!("0::/{step}"), &["22 1 8:1 / / rw - ext4 /dev/sda1 rw", V2]);
    let root = "sys/fs/cgroup/system.slice";
    machine.write(&format!("sys/fs/cgroup/{step}/memory.max"), "max");
    machine.write(&format!("sys/fs/cgroup/{step}/cpu.max"), "max 100000");
    machine.write(&format!("{root}/slurmstepd.scope/job_7/memory.max"), "4294967296");
    machine.write(&format!("{root}/slurmstepd.scope/job_7/cpu.max"), "600000 100000");
    machine.write(&format!("{root}/memory.max"), "max");
    assert_eq!(machine.limits(), (Some(4 << 30), Some(6.0)));
}

/// A unit with `MemoryMax=1G` and `CPUQuota=150%` in a slice that may have less.
#[test]
fn a_unit_and_its_slice() {
    let machine = Machine::new("0::/daq.slice/evbd.service", &[V2]);
    machine.write("sys/fs/cgroup/daq.slice/evbd.service/memory.max", "1073741824");
    machine.write("sys/fs/cgroup/daq.slice/evbd.service/cpu.max", "150000 100000");
    machine.write("sys/fs/cgroup/daq.slice/memory.max", "536870912");
    assert_eq!(machine.limits(), (Some(512 << 20), Some(1.5)));
}

/// In a namespace of its own, a container sees its group as the root; otherwise it sees the path of
/// the host, and either the whole tree or only its own part of it.
#[test]
fn containers() {
    let own = Machine::new("0::/", &[V2]);
    own.write("sys/fs/cgroup/memory.max", "268435456");
    assert_eq!(own.limits(), (Some(256 << 20), None));

    let path = "machine.slice/libpod-7.scope/container";
    let of_host = Machine::new(&format!("0::/{path}"), &[V2]);
    of_host.write("sys/fs/cgroup/machine.slice/libpod-7.scope/memory.max", "268435456");
    assert_eq!(of_host.limits(), (Some(256 << 20), None));

    let mount = format!("30 23 0:26 /{path} /sys/fs/cgroup ro - cgroup2 cgroup2 rw");
    let part = Machine::new(&format!("0::/{path}"), &[&mount]);
    part.write("sys/fs/cgroup/memory.max", "268435456");
    assert_eq!(part.limits(), (Some(256 << 20), None));

    let outside = Machine::new("0::/../../elsewhere", &[V2]);
    outside.write("sys/fs/cgroup/memory.max", "268435456");
    assert_eq!(outside.limits(), (Some(256 << 20), None));
}

/// Version 1 has a hierarchy for each controller or some of them, beside an empty one of version 2.
#[test]
fn version_1() {
    let mounts = [
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    ];
    let machine = Machine::new("4:memory:/daq/evb\n3:cpu,cpuacct:/daq\n0::/", &mounts);
    machine.write("sys/fs/cgroup/memory/daq/evb/memory.limit_in_bytes", "9223372036854771712");
    machine.write("sys/fs/cgroup/memory/daq/memory.limit_in_bytes", "268435456");
    machine.write("sys/fs/cgroup/cpu,cpuacct/daq/cpu.cfs_quota_us", "50000");
    machine.write("sys/fs/cgroup/cpu,cpuacct/daq/cpu.cfs_period_us", "100000");
    assert_eq!(machine.limits(), (Some(256 << 20), Some(0.5)));
    machine.write("sys/fs/cgroup/cpu,cpuacct/daq/cpu.cfs_quota_us", "-1");
    machine.write("sys/fs/cgroup/memory/daq/memory.limit_in_bytes", "9223372036854771712");
    assert_eq!(machine.limits(), (None, None));
}

#[test]
fn without_control_groups_or_with_odd_texts_there_is_no_limit() {
    assert_eq!(Machine::new("", &[]).limits(), (None, None));
    assert_eq!(Machine::new("0::/a\nx\n:::", &["", "a - b", V2]).limits(), (None, None));
    let machine = Machine::new("0::/", &[V2]);
    machine.write("sys/fs/cgroup/memory.max", "much");
    machine.write("sys/fs/cgroup/cpu.max", "1 0");
    assert_eq!(machine.limits(), (None, None));
}

/// A real group of version 1 that this test makes, with another group in it.
#[test]
fn a_real_group() {
    let top = Path::new("/sys/fs/cgroup/memory").join(format!("evb-test-{}", std::process::id()));
    let inner = top.join("inner");
    let is_made = fs::create_dir(&top).and_then(|()| fs::create_dir(&inner)).is_ok();
    // In a directory that is no control group, the kernel makes no such file.
    let limit = top.join("memory.limit_in_bytes");
    if !is_made || !limit.exists() || fs::write(limit, "256M").is_err() {
        let _ = (fs::remove_dir(&inner), fs::remove_dir(&top));
        let needed = "a writable hierarchy of memory (control groups, version 1)";
        return evb_needs::skip(&evb_needs::Missing::new(needed));
    }
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(inner.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    // `proc/self` is a link to the other process.
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    let link = |from: String, to: &str| std::os::unix::fs::symlink(from, root.path().join(to)).unwrap();
    link(format!("/proc/{}", sleeper.id()), "proc/self");
    link("/sys".to_owned(), "sys");
    let limit = memory_limit_in(root.path());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    fs::remove_dir(&inner).and_then(|()| fs::remove_dir(&top)).unwrap();
    assert_eq!(limit, Some(Bytes::mib(256)));
}
