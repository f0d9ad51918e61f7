//! Two runs under run control, whose roles live in this process.

use std::{error::Error, net::SocketAddr};

use evb::{
    prelude::*,
    run_control::{Joining, Role, RunControl, System, SystemError},
};

const EVENTS: u64 = 100;

/// A system of one source and one builder; run numbers count up.
struct Small {
    next: u32,
}

/// Readout that makes a fragment when the source asks for it.
struct Counter;

impl Readout for Counter {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        Some(Fragment::new(event, Timestamp::new(event.number()), event.number().to_le_bytes().to_vec()))
    }
}

impl System for Small {
    fn configure(&mut self) -> Result<(), SystemError> {
        Ok(())
    }

    fn plan(&mut self) -> Result<SupervisorConfig, SystemError> {
        self.next += 1;
        let (source, builder) = (SourceId::new(1), BuilderId::new(1));
        let epoch = SupervisorConfig::fresh_epoch();
        let mut plan = RunPlan::new(RunNumber::new(self.next), epoch, vec![source], vec![builder]);
        plan.events = Some(EVENTS);
        Ok(SupervisorConfig::new("127.0.0.1:0", plan))
    }

    fn join(&mut self, supervisor: SocketAddr, plan: &RunPlan) -> Vec<Joining> {
        let (source, builder) = (plan.sources[0], plan.builders[0]);
        let refused =
            |error: evb::role::RoleError| SystemError::new("this process", error.to_string(), "see the log");
        let built = async move {
            let config = BuilderConfig::new(builder, supervisor.to_string());
            Builder::connect(config, NullSink).await.map(|role| Role::Builder(builder, role)).map_err(refused)
        };
        let read = async move {
            let config = SourceConfig::new(source, supervisor.to_string());
            Source::on_demand(config, Counter).await.map(|role| Role::Source(source, role)).map_err(refused)
        };
        vec![Box::pin(built), Box::pin(read)]
    }
}

/// Leads two runs, and returns their verdicts.
pub async fn lead_two() -> Result<Vec<String>, Box<dyn Error>> {
    let control = RunControl::new(Small { next: 0 }, false);
    control.configure().await?;
    let mut verdicts = Vec::new();
    for number in 1..=2 {
        control.start().await?;
        let report = control.settled().await.ok_or("there is no ledger")?;
        if report.run != number || report.events.complete != EVENTS {
            return Err(format!("run {}: {}", report.run, report.verdict).into());
        }
        verdicts.push(format!("run {number}, {}", report.verdict));
    }
    control.close("both runs are over").await?;
    Ok(verdicts)
}
