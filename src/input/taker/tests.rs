use std::{
    future::{Future, ready},
    sync::{Arc, Mutex},
};

use evb_core::{fragment::Fragment, id::SourceId, source::PushError as Refused};
use tokio::sync::mpsc;

use super::Taker;
use crate::source::PushError;

/// Substitute for a source that refuses event 0 and makes other fragments wait while its channel is
/// full.
#[derive(Clone)]
pub(in crate::input) struct Channel(pub(in crate::input) mpsc::Sender<Fragment>);

impl Taker for Channel {
    fn source(&self) -> SourceId {
        SourceId::new(1)
    }

    async fn take(&self, fragment: Fragment) -> Result<(), PushError> {
        if fragment.event.number() == 0 {
            return Err(Refused::EventZero.into());
        }
        self.0.send(fragment).await.map_err(|_| PushError::Ended)
    }
}

/// Substitute for a source that keeps every fragment and never waits.
#[derive(Clone, Default)]
pub(in crate::input) struct Heap(Arc<Mutex<Vec<Fragment>>>);

impl Heap {
    pub(in crate::input) fn taken(&self) -> Vec<Fragment> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Taker for Heap {
    fn source(&self) -> SourceId {
        SourceId::new(1)
    }

    fn take(&self, fragment: Fragment) -> impl Future<Output = Result<(), PushError>> + Send {
        self.0.lock().unwrap().push(fragment);
        ready(Ok(()))
    }
}
