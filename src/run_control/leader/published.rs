//! Output of the leader: the status, and one sample per second.

use evb_core::{
    run_control::State,
    supervisor::{Presence, Survey},
};
use evb_net::clock;

use super::{
    super::{LiveRates, Status, System, problems::problems},
    Leader,
    refusals::waiting_for,
};

impl<S: System> Leader<S> {
    /// Records the sample of this second.
    pub(super) async fn glance(&mut self) {
        let survey = self.survey().await;
        let run = self.run.as_ref().map(|run| run.progress().run.number());
        self.note_partings(survey.as_ref());
        self.history.take(clock::now(), self.state, run, survey.as_ref());
    }

    /// Notes why sources and builders left before the run, or cannot take part.
    fn note_partings(&mut self, survey: Option<&Survey>) {
        let Some(survey) = survey.filter(|_| self.state == State::Configured) else { return };
        let sources = survey.sources.iter().map(|seat| ("source", seat.id, seat.presence, &seat.parting));
        let builders = survey.builders.iter().map(|seat| ("builder", seat.id, seat.presence, &seat.parting));
        let left = sources
            .chain(builders)
            .find(|(.., presence, parting)| *presence == Presence::Absent && !parting.is_empty());
        if let Some((role, id, _, parting)) = left {
            self.last_error = Some(format!("{role} {id}: {parting}"));
        }
    }

    async fn survey(&mut self) -> Option<Survey> {
        let survey = self.run.as_ref()?.handle.survey().await.ok()?;
        self.speed.look(clock::now(), survey.events);
        Some(survey)
    }

    /// Returns the complete status.
    pub(super) async fn status(&mut self) -> Status {
        let survey = self.survey().await;
        let mut totals = self.totals.clone();
        if let Some(survey) = &survey {
            totals.add(&survey.events, &survey.dead_time, survey.payload_bytes);
        }
        let waiting = survey.as_ref().filter(|_| self.state == State::Configured).map(waiting_for);
        Status {
            state: self.state,
            run: self.run.as_ref().map(|run| run.progress().run.number()),
            run_id: self.run.as_ref().map(|run| run.progress().run_id),
            begin: self.run.as_ref().map(|run| run.progress().begin).unwrap_or_default(),
            ready: self.state == State::Configured
                && self.run.as_ref().is_some_and(|run| run.progress().ready),
            waiting_for: waiting.unwrap_or_default(),
            rates: LiveRates { bytes_per_s: self.history.bytes_per_s(), ..self.speed.rates },
            problems: survey.as_ref().map_or_else(Vec::new, |survey| problems(survey, self.history.latest())),
            annotation: self.annotation.clone(),
            totals,
            survey,
            last_error: self.last_error.clone(),
            last_run: self.over.front().cloned(),
            earlier_runs: self.over.iter().skip(1).cloned().collect(),
            runs: self.runs,
        }
    }
}
