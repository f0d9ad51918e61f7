//! The supervisor's host.

use evb_core::{
    id::Peer,
    ledger::RunReport,
    supervisor::{Output, Recipients, SupervisorCore},
};

use crate::{
    host::control,
    network::{EndIndex, HostIndex, Network},
    stream::{read_control, write_control},
};

#[derive(Debug)]
pub(crate) struct SupervisorHost {
    core: SupervisorCore,
    host: HostIndex,
    peers: Vec<(Peer, EndIndex)>,
    sources: usize,
}

impl SupervisorHost {
    /// Creates the host. `peers` lists all sources in order, followed by the builders.
    pub(crate) fn new(
        core: SupervisorCore,
        host: HostIndex,
        peers: Vec<(Peer, EndIndex)>,
        sources: usize,
    ) -> Self {
        Self { core, host, peers, sources }
    }

    /// Runs the supervisor's state machine; returns its report when the ledger is closed.
    pub(crate) fn run(&mut self, network: &mut Network) -> Result<Option<RunReport>, String> {
        let now = network.now();
        for (peer, end) in &self.peers {
            while let Some(message) = read_control(network.incoming(*end))? {
                self.core.handle_message(*peer, control(message), now);
            }
        }
        self.core.handle_timeout(now);
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Send { to, message } => {
                    for (_, end) in self.recipients(to) {
                        write_control(&message, network.outgoing(*end));
                    }
                }
                Output::Drop { peer, reason } => {
                    return Err(format!("the supervisor dropped {peer}: {reason}"));
                }
                // The supervisor of this simulation has no journal.
                Output::Journal(_) => {}
                Output::Ended(report) => return Ok(Some(*report)),
            }
        }
        // All messages that one run of the host writes to a peer are sent together.
        for (_, end) in &self.peers {
            network.flush(*end);
        }
        if cfg!(debug_assertions) {
            self.core.invariants();
        }
        if let Some(at) = self.core.next_timeout() {
            network.wake_at(self.host, at);
        }
        Ok(None)
    }

    fn recipients(&self, to: Recipients) -> impl Iterator<Item = &(Peer, EndIndex)> {
        let is_meant = move |(position, (peer, _)): &(usize, &(Peer, EndIndex))| match &to {
            Recipients::Everyone => true,
            Recipients::Sources(set) => *position < self.sources && set.contains(*position),
            Recipients::Source(id) => *peer == Peer::Source(*id),
            Recipients::Builder(id) => *peer == Peer::Builder(*id),
        };
        self.peers.iter().enumerate().filter(is_meant).map(|(_, peer)| peer)
    }
}
