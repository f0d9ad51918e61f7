//! A custom sink: a table with a line for each event, safe on disk before the event counts as
//! accepted.
//!
//!     cargo run --release --example custom_sink -- out/events.csv

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use evb::{
    builder::{Builder, BuilderConfig},
    event::Event,
    id::{BuilderId, RunNumber, SourceId},
    input::{FragmentSize, Generator},
    sink::{RunFacts, Sink, SinkError},
    source::{Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig},
    units::Bytes,
};

/// Writes comma-separated values: event, fragments, and the size of each source's fragment.
struct Table {
    path: PathBuf,
    out: Option<BufWriter<File>>,
}

impl Table {
    fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), out: None }
    }

    /// Runs `act` on the open file, and turns an I/O error into a [`SinkError`] that names the
    /// file.
    fn with(&mut self, act: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), SinkError> {
        let out = self.out.as_mut().ok_or_else(|| SinkError::lost("the run has not begun"))?;
        act(out).map_err(|error| SinkError::lost(format!("{}: {error}", self.path.display())))
    }
}

impl Sink for Table {
    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        let fault = |error| SinkError::lost(format!("{}: {error}", self.path.display()));
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(fault)?;
        }
        self.out = Some(BufWriter::new(File::create(&self.path).map_err(fault)?));
        let columns: Vec<String> = run.sources.iter().map(|source| format!("source_{source}")).collect();
        self.with(|out| writeln!(out, "event,fragments,{}", columns.join(",")))
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        self.with(|out| {
            write!(out, "{},{}", event.id, event.fragments().len())?;
            event.fragments().try_for_each(|fragment| write!(out, ",{}", fragment.payload.len()))?;
            writeln!(out)
        })
    }

    // Called after each batch of events: when `commit` returns, the slots of these events are free,
    // and the sources forget the fragments.
    async fn commit(&mut self) -> Result<(), SinkError> {
        self.with(|out| out.flush().and_then(|()| out.get_ref().sync_data()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "out/events.csv".to_owned());
    let (sources, builder) = ([1, 2, 3].map(SourceId::new), BuilderId::new(1));
    let epoch = SupervisorConfig::fresh_epoch();
    let plan = RunPlan::new(RunNumber::new(1), epoch, sources.to_vec(), vec![builder]);
    let plan = RunPlan { events: Some(1000), ..plan };
    let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
    let address = supervisor.address().to_string();
    let run = tokio::spawn(supervisor.run());

    Builder::connect(BuilderConfig::new(builder, &address), Table::new(&path)).await?;
    for id in sources {
        let config = SourceConfig::new(id, &address);
        let size = FragmentSize::LogNormal { mean: Bytes::new(2000), sigma: Bytes::new(800) };
        Source::on_demand(config.clone(), Generator::new(id, size, config.max_fragment, 1)).await?;
    }
    println!("{}; see {path}", run.await??.verdict);
    Ok(())
}
