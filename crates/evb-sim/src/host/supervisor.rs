//! The supervisor's host.

use std::collections::BTreeSet;

use evb_core::{
    id::Peer,
    ledger::RunReport,
    supervisor::{Output, Recipients, SupervisorCore},
    wire::control::{Begun, Control, Message},
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
        for place in network.readable(self.host).streams {
            let (peer, end) = &self.peers[place];
            while let Some(message) = read_control(network.incoming(*end))? {
                self.core.handle_message(*peer, control(message), now);
            }
        }
        self.core.handle_timeout(now);
        let mut written = BTreeSet::new();
        while let Some(output) = self.core.poll(now) {
            match output {
                // All peers are prepared, so that the first event comes as soon as the lanes exist.
                Output::Send { message: Control { message: Some(Message::Begin(_)) }, .. } => {
                    for (peer, _) in &self.peers {
                        self.core.handle_message(*peer, control(Message::Begun(Begun::default())), now);
                    }
                }
                Output::Send { to, message } => {
                    for place in self.recipients(to) {
                        write_control(&message, network.outgoing(self.peers[place].1));
                        written.insert(place);
                    }
                }
                Output::Drop { peer, reason } => {
                    return Err(format!("the supervisor dropped {peer}: {reason}"));
                }
                // The supervisor of this simulation has no journal and no operator.
                Output::Journal(_) | Output::Begun(_) => {}
                Output::Ended(report) => return Ok(Some(*report)),
            }
        }
        // All messages that one run of the host writes to a peer are sent together.
        written.into_iter().for_each(|place| network.flush(self.peers[place].1));
        if cfg!(debug_assertions) {
            self.core.invariants();
        }
        if let Some(at) = self.core.next_timeout() {
            network.wake_at(self.host, at);
        }
        Ok(None)
    }

    /// Returns the positions of the peers to which a message is sent.
    fn recipients(&self, to: Recipients) -> Vec<usize> {
        let place =
            |peer: Peer| self.peers.binary_search_by_key(&peer, |(peer, _)| *peer).into_iter().collect();
        match to {
            Recipients::Everyone => (0..self.peers.len()).collect(),
            Recipients::Sources(set) => (0..self.sources).filter(|place| set.contains(*place)).collect(),
            Recipients::Source(id) => place(Peer::Source(id)),
            Recipients::Builder(id) => place(Peer::Builder(id)),
        }
    }
}
