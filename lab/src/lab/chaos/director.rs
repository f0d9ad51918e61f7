//! [`Director`] applies one fault after the other, removes it, and waits until the system has
//! recovered.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use lab_base::{disk::Disk, fleet::Fleet, network::Network};

use super::fault::{Fault, Kind};
use crate::lab::watch::Watch;

/// Longest allowed time from the end of a fault until every host has recovered; it holds even after
/// a cut of a minute.
const WHOLE_WITHIN: Duration = Duration::from_secs(40);

/// Effects of a fault from which the system has recovered.
#[derive(Clone, Debug)]
pub(crate) struct Overcome {
    pub(crate) fault: Fault,
    /// Longest time during the fault and the recovery in which the builders received less data than
    /// they should.
    pub(crate) pause: Duration,
    /// Time from the end of the fault until the system had recovered.
    pub(crate) whole_after: Duration,
}

/// State of the current fault.
enum Stage {
    /// The system has been healthy since this time.
    Well(Duration),
    /// The fault was applied at this time.
    Lasts(Duration),
    /// The fault was removed at this time.
    Heals(Duration),
}

pub(crate) struct Director<'a> {
    network: &'a Network,
    disks: &'a BTreeMap<String, Disk>,
    faults: std::vec::IntoIter<Fault>,
    next: Option<Fault>,
    stage: Stage,
    /// Interval between faults; `None` if each fault has its own random delay.
    every: Option<Duration>,
    pub(crate) overcome: Vec<Overcome>,
}

impl<'a> Director<'a> {
    pub(crate) fn new(
        network: &'a Network,
        disks: &'a BTreeMap<String, Disk>,
        faults: Vec<Fault>,
        every: Option<Duration>,
    ) -> Self {
        let mut faults = faults.into_iter();
        let next = faults.next();
        let stage = Stage::Well(Duration::MAX);
        Self { network, disks, faults, next, stage, every, overcome: Vec::new() }
    }

    /// Returns true if the system has recovered from the last fault.
    pub(crate) fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Applies or removes the current fault if its time has come, and checks that the system
    /// recovers.
    pub(crate) fn turn(&mut self, fleet: &mut Fleet, watch: &mut Watch) -> Result<()> {
        let now = fleet.elapsed();
        let Some(fault) = self.next.clone() else { return Ok(()) };
        match self.stage {
            // The system is healthy for the first time, which is the start of the waiting time
            // before the first fault.
            Stage::Well(Duration::MAX) if watch.is_whole() => self.stage = Stage::Well(now),
            Stage::Well(Duration::MAX) if now > WHOLE_WITHIN => bail!("the run does not begin"),
            Stage::Well(since) if since < Duration::MAX && now >= self.due(since, &fault) => {
                watch.take_pause();
                println!("{:8.2} s  {fault}", now.as_secs_f64());
                self.set(&fault, true, fleet)?;
                self.stage = Stage::Lasts(fleet.elapsed());
            }
            Stage::Lasts(since) if now >= since + fault.lasts => {
                self.set(&fault, false, fleet)?;
                self.stage = Stage::Heals(now);
            }
            Stage::Heals(since) if now > since && watch.is_whole() => {
                let (pause, whole_after) = (watch.take_pause(), now - since);
                self.overcome.push(Overcome { fault, pause, whole_after });
                self.next = self.faults.next();
                self.stage = Stage::Well(now);
            }
            Stage::Heals(since) if now > since + WHOLE_WITHIN => {
                let limit = WHOLE_WITHIN.as_secs();
                bail!("{limit} s after `{fault}` was over, not everything goes on\n{}", fleet.complaints());
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the time at which `fault` is applied, if the system has been healthy since `since`.
    fn due(&self, since: Duration, fault: &Fault) -> Duration {
        match self.every {
            Some(every) => since.max(every * (self.overcome.len() as u32 + 1)),
            None => since + fault.after,
        }
    }

    fn set(&self, fault: &Fault, is_on: bool, fleet: &mut Fleet) -> Result<()> {
        let disk = || self.disks.get(&fault.host);
        match fault.kind {
            Kind::Kill if is_on => fleet.kill(&fault.host),
            Kind::Kill => fleet.start_again(&fault.host),
            Kind::Freeze => fleet.signal(&fault.host, if is_on { "STOP" } else { "CONT" }),
            Kind::Cut | Kind::LongCut => self.network.cut(&fault.host, is_on),
            Kind::Full => disk().map_or(Ok(()), |disk| disk.fill(is_on)),
            Kind::Stuck => disk().map_or(Ok(()), |disk| disk.stick(is_on)),
        }
    }
}
