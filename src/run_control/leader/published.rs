//! The status for operators, and one sample per second.

use evb_core::{
    run_control::{State, leader::LeaderStatus},
    supervisor::{Presence, Survey},
};
use evb_net::clock;

use super::{
    super::{LiveRates, Status, System, problems::problems},
    Driver,
};

impl<S: System> Driver<S> {
    /// Records the sample of this second.
    pub(super) async fn glance(&mut self) {
        let survey = self.survey().await;
        let run = self.run.as_ref().map(|run| run.progress().run.number());
        survey.iter().for_each(|survey| self.leader.handle_survey(survey));
        self.history.take(clock::now(), self.leader.status().state, run, survey.as_ref());
    }

    async fn survey(&mut self) -> Option<Survey> {
        let survey = self.run.as_ref()?.handle.survey().await.ok()?;
        self.speed.look(clock::now(), survey.events);
        Some(survey)
    }

    /// Returns the complete status.
    pub(super) async fn status(&mut self) -> Status {
        let survey = self.survey().await;
        let LeaderStatus { state, annotation, last_error, runs } = self.leader.status().clone();
        let mut totals = self.totals.clone();
        if let Some(survey) = &survey {
            totals.add(&survey.events, &survey.dead_time, survey.payload_bytes);
        }
        let waiting = survey.as_ref().filter(|_| state == State::Configured).map(waiting_for);
        let prepares = survey.as_ref().is_some_and(|survey| !survey.preparing.is_empty());
        Status {
            state,
            run: self.run.as_ref().map(|run| run.progress().run.number()),
            run_id: self.run.as_ref().map(|run| run.progress().run_id),
            begin: self.run.as_ref().map(|run| run.progress().begin).unwrap_or_default(),
            ready: state == State::Configured
                && !prepares
                && self.run.as_ref().is_some_and(|run| run.progress().ready),
            waiting_for: waiting.unwrap_or_default(),
            rates: LiveRates { bytes_per_s: self.history.bytes_per_s(), ..self.speed.rates },
            problems: survey.as_ref().map_or_else(Vec::new, |survey| problems(survey, self.history.latest())),
            annotation,
            totals,
            survey,
            last_error,
            last_run: self.over.front().cloned(),
            earlier_runs: self.over.iter().skip(1).cloned().collect(),
            runs,
        }
    }
}

/// Returns the names of those that prepare for a run which begins, of missing peers or, if all
/// peers are present, of those whose lanes are not connected.
fn waiting_for(survey: &Survey) -> Vec<String> {
    if !survey.preparing.is_empty() {
        return survey.preparing.clone();
    }
    let sources = survey.sources.iter().map(|source| (source.presence, source.named()));
    let builders = survey.builders.iter().map(|builder| (builder.presence, builder.named()));
    let peers: Vec<(Presence, String)> = sources.chain(builders).collect();
    let peers_with = |wanted: fn(Presence) -> bool| -> Vec<String> {
        peers.iter().filter(|(presence, _)| wanted(*presence)).map(|(_, name)| name.clone()).collect()
    };
    let absent = peers_with(|presence| presence == Presence::Absent);
    if absent.is_empty() { peers_with(|presence| presence != Presence::Up) } else { absent }
}
