//! Times and sizes of output, compared with those of a good file of the same size.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::Result;

use super::{
    files::of_size,
    tools::{Said, Tool, Tools, clear},
};

/// The bound on the time: this many times that for a good file, and this time more.
const TIMES: f64 = 20.0;
const MORE: Duration = Duration::from_secs(1);
/// The bound on the output: this many times the size of the files, and this many bytes more. JSON
/// has about 35 bytes for a missing source in each of three lists, and a file has two or four.
const OUTPUT: u64 = 30;
const MORE_OUTPUT: u64 = 1 << 16;

/// The worst values of a tool.
#[derive(Default)]
struct Worst {
    ratio: f64,
    time: Duration,
    good: Duration,
}

/// Times of good files, and the worst ratios to them.
pub(super) struct Pace {
    folder: PathBuf,
    /// By tool and size: 2 to the power of the key.
    good: BTreeMap<(Tool, u32), Duration>,
    worst: BTreeMap<Tool, Worst>,
}

impl Pace {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, good: BTreeMap::new(), worst: BTreeMap::new() }
    }

    /// Compares what a tool took for files of this size, and returns a complaint if it is too much.
    pub(super) fn check(
        &mut self,
        tools: &Tools,
        tool: Tool,
        size: u64,
        said: &Said,
    ) -> Result<Option<String>> {
        // A smaller good file makes the bound stricter.
        let power = size.max(1).ilog2().max(12);
        let good = match self.good.get(&(tool, power)) {
            Some(good) => *good,
            None => self.measure(tools, tool, power)?,
        };
        let ratio = said.time.as_secs_f64() / good.as_secs_f64();
        let worst = self.worst.entry(tool).or_default();
        if ratio > worst.ratio {
            *worst = Worst { ratio, time: said.time, good };
        }
        if said.time > good.mul_f64(TIMES) + MORE {
            let (name, time) = (tool.name(), said.time);
            return Ok(Some(format!("{name} takes {time:.2?}, and {good:.2?} for a good file of this size")));
        }
        let output = (said.output.stdout.len() + said.output.stderr.len()) as u64;
        let is_long = tool != Tool::Cpp && output > OUTPUT * size + MORE_OUTPUT;
        Ok(is_long.then(|| format!("{} prints {output} B about files of {size} B", tool.name())))
    }

    /// Measures a tool with a good file; the middle one of three times counts.
    fn measure(&mut self, tools: &Tools, tool: Tool, power: u32) -> Result<Duration> {
        let folder = self.folder.join(power.to_string());
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            of_size(folder.clone(), 1 << power)?;
        }
        let out = self.folder.join("out");
        let mut times = Vec::new();
        for _ in 0..3 {
            clear(&out);
            times.push(tools.run(tool, &folder, None, &out)?.time);
        }
        times.sort();
        self.good.insert((tool, power), times[1]);
        Ok(times[1])
    }

    /// Prints the worst ratio of each tool.
    pub(super) fn print(&self) {
        println!("worst time compared with a good file of the same size:");
        for (tool, Worst { ratio, time, good }) in &self.worst {
            println!("  {:<26} {ratio:>6.2} times: {time:.2?} in place of {good:.2?}", tool.name());
        }
    }
}
