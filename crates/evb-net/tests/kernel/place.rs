//! [`Place`]: a network namespace for one test, with its devices, gone when the test ends.

use std::{
    net::Ipv4Addr,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use evb_needs::Missing;

use crate::sys_namespace::leave_network;

/// IP addresses of the two ends of the virtual cable: this end, and the far end (`THEIRS`).
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Lock that runs the tests one after the other, because they measure time.
static TURN: Mutex<()> = Mutex::new(());

/// Says what a test lacks, which is therefore skipped; if all tests must run
/// (`EVB_KERNEL_TESTS=required`), a skipped test fails.
pub(crate) fn skip(test: &str, missing: &Missing) {
    let required = std::env::var("EVB_KERNEL_TESTS").is_ok_and(|value| value == "required");
    assert!(!required, "{test} must run here, and cannot: it needs {missing}");
    evb_needs::skip(missing);
}

/// The network namespace of the calling thread.
pub(crate) struct Place {
    peer: Option<Child>,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    /// Moves the calling thread to a new network namespace with a loopback device. If this process
    /// may not do so, says what is missing and returns `None`.
    pub(crate) fn enter(test: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = leave_network() {
            skip(test, &Missing::new("a network namespace of its own, as root").because(error));
            return None;
        }
        let place = Self { peer: None, _turn: turn };
        if let Err(missing) = run("ip link set lo up") {
            skip(test, &missing);
            return None;
        }
        Some(place)
    }

    /// Creates a virtual cable `cable0` to another network namespace, with `queues` transmit
    /// queues.
    pub(crate) fn lay_cable(&mut self, queues: u32) -> Result<(), Missing> {
        evb_needs::programs(&["unshare", "nsenter", "ip"])?;
        let peer = Command::new("unshare")
            .args(["--net", "sleep", "60"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| Missing::new("unshare").because(error))?;
        let pid = peer.id();
        self.peer = Some(peer);
        // The other namespace exists as soon as the process `unshare` has become `sleep`.
        let became =
            || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep");
        while !became() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        run(&format!(
            "ip link add cable0 numtxqueues {queues} numrxqueues {queues} address 02:00:00:00:00:01 type veth \
             peer name cable1 netns {pid} address 02:00:00:00:00:02"
        ))?;
        run(&format!("ip address add {OURS}/24 dev cable0"))?;
        run("ip link set cable0 up")?;
        let there = format!("nsenter -t {pid} -n");
        run(&format!("{there} ip address add {THEIRS}/24 dev cable1"))?;
        run(&format!("{there} ip link set cable1 up"))?;
        // The link addresses are set by hand, because ARP packets carry no departure time and `etf`
        // would drop them.
        run(&format!("ip neighbour replace {THEIRS} lladdr 02:00:00:00:00:02 dev cable0"))?;
        run(&format!("{there} ip neighbour replace {OURS} lladdr 02:00:00:00:00:01 dev cable1"))
    }

    /// Runs a command, given as words separated by spaces, at the far end of the cable.
    pub(crate) fn run_there(&self, line: &str) -> Result<(), Missing> {
        let pid = self.peer.as_ref().map(Child::id).ok_or_else(|| Missing::new("a cable"))?;
        run(&format!("nsenter -t {pid} -n {line}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(peer) = &mut self.peer {
            let _ = peer.kill();
            let _ = peer.wait();
        }
    }
}

/// Runs a command, given as words separated by spaces.
pub(crate) fn run(line: &str) -> Result<(), Missing> {
    evb_needs::run(line).map(drop)
}
