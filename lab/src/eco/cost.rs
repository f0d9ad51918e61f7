//! Measures the cost of monitoring. Identical runs alternate between two conditions: without
//! clients and live reports, and with live reports, a Prometheus scrape a second, and three clients
//! that poll like the control page. The result is the ratio of the event rates of each pair of
//! runs.

mod clients;

use std::{fmt::Write as _, thread, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;
use lab_base::{
    alone,
    needs::Need,
    ratios::Ratios,
    report::{Bound, Report},
    setting::Setting,
};
use serde_json::{Value, json};

use self::clients::Clients;
use super::daemon::{CONTROL, Daemon};

pub(crate) const NEEDS: &[Need] = &[alone::UNSHARE, alone::SETPRIV, alone::IP];

/// Number of sources, and also the number of builders.
const EACH: u16 = 4;
/// Sizes of a fragment: small fragments mean many events, which load the supervisor; large
/// fragments load memory and network.
const SIZES: [&str; 2] = ["1 kB", "1 MB"];
/// Least allowed lower end of the 95 % confidence interval of the ratio of rates.
const KEPT: f64 = 0.98;
/// Time allowed for each run in addition to its duration.
const AROUND: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(crate) struct CostArgs {
    /// Number of pairs of runs for each fragment size.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Time for which each run takes triggers, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Start one process for each role, instead of one process for all roles.
    #[arg(long)]
    apart: bool,
    /// Used internally: states that this process already runs inside its own namespaces.
    #[arg(long, hide = true)]
    inside: bool,
}

pub(super) fn run(setting: &Setting, args: &CostArgs) -> Result<u8> {
    ensure!(
        args.rounds >= 2,
        "--rounds is {}, and must be at least 2: one pair says nothing of the scatter",
        args.rounds
    );
    if !args.inside {
        let mut again = setting.again("cost");
        again.extend([format!("--rounds={}", args.rounds), format!("--seconds={}", args.seconds)]);
        again.extend(args.apart.then(|| "--apart".to_owned()));
        let run = Duration::from_secs(args.seconds.into()) + AROUND;
        return alone::run(&again, run * args.rounds * 2 * SIZES.len() as u32);
    }
    let folder = setting.folder("cost")?;
    let mut report = Report::bare("cost");
    let mut daemon = Daemon::new(&setting.evbd, &folder, &config(SIZES[0], args.seconds, true))?;
    for (name, roles) in processes(args.apart) {
        daemon.start(&name, &roles.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    for size in SIZES {
        measure(&daemon, size, args, &mut report)?;
    }
    drop(daemon);
    Ok(u8::from(!report.finish(&setting.out)?))
}

/// Measures all pairs of runs of one fragment size. The order of the two runs in a pair alternates.
fn measure(daemon: &Daemon, size: &str, args: &CostArgs, report: &mut Report) -> Result<()> {
    println!(
        "\n{EACH}x{EACH}, {size}\n{:>5} {:>14} {:>14} {:>7}",
        "pair", "alone 1/s", "watched 1/s", "ratio"
    );
    let mut pairs = Vec::new();
    for round in 1..=args.rounds {
        let first = round % 2 == 0;
        let one = events_per_s(daemon, size, args.seconds, first)?;
        let other = events_per_s(daemon, size, args.seconds, !first)?;
        let (watched, unwatched) = if first { (one, other) } else { (other, one) };
        println!("{round:>5} {unwatched:>14.0} {watched:>14.0} {:>7.4}", watched / unwatched);
        pairs.push((unwatched, watched));
    }
    let ratios = Ratios::of(&pairs);
    println!("ratio {:.4}, 95 % between {:.4} and {:.4}", ratios.mean, ratios.low, ratios.high);
    report
        .attach(size, json!({ "pairs": pairs, "mean": ratios.mean, "low": ratios.low, "high": ratios.high }));
    report.noisy(&format!("{size}: lower end of the 95 % interval"), ratios.low, Bound::AtLeast(KEPT));
    Ok(())
}

/// Performs one run, and returns the rate of complete events in events/s.
fn events_per_s(daemon: &Daemon, size: &str, seconds: u32, watched: bool) -> Result<f64> {
    daemon.wait("idle", |status| status["state"] == "Configured" || status["state"] == "Unconfigured")?;
    daemon.configure(&config(size, seconds, watched))?;
    let ready = daemon.wait("ready", |status| status["ready"] == true)?;
    let clients = watched.then(Clients::start);
    ensure!(daemon.command("start")?.0 == 200, "the run does not start");
    // Polling would add to the cost that is measured, so this test sends no request until the run
    // is over.
    thread::sleep(Duration::from_secs(seconds.into()));
    let over =
        daemon.wait("over", |status| status["state"] == "Configured" && status["run"] != ready["run"])?;
    if let Some(clients) = clients {
        let answers = clients.stop();
        ensure!(answers >= u64::from(seconds), "the clients had {answers} answers in {seconds} s");
    }
    let last = &over["last_run"];
    ensure!(last["run"] == ready["run"] && last["exit_code"] == 0, "{}", last["verdict"]);
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    Ok(number(&last["events"]["complete"]) / number(&last["duration_s"]))
}

/// Returns the name and the roles of each evbd process; no roles mean all roles.
fn processes(apart: bool) -> Vec<(String, Vec<String>)> {
    if !apart {
        return vec![("all".to_owned(), Vec::new())];
    }
    let peers = (1..=EACH).flat_map(|id| [format!("builder:{id}"), format!("source:{id}")]);
    ["supervisor".to_owned()]
        .into_iter()
        .chain(peers)
        .map(|role| (role.replace(':', "-"), vec![role]))
        .collect()
}

fn config(size: &str, seconds: u32, watched: bool) -> String {
    let period = if watched { "1 s" } else { "0 s" };
    let mut text = format!(
        "[run]\nduration = \"{seconds} s\"\nseed = 1\n[control]\nlisten = \"{CONTROL}\"\n\
         [supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         report_period = \"{period}\"\n[network]\ntransport = \"tcp\"\n[shaping]\nmode = \"credit\"\n\
         [[source]]\nids = \"1-{EACH}\"\nbind = \"127.0.0.1\"\ninput = {{ kind = \"generator\", size = \"{size}\" }}\n"
    );
    for id in 1..=EACH {
        let _ = write!(text, "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:71{id:02}\"\nsink = \"null\"\n");
    }
    text
}
