//! The output of `evbd provision` for people. The plan is printed as a shell script.

use std::fmt::Write as _;

use evb_core::{quantities::counted, units::Bytes};

use super::{
    executor::spelled,
    nic::{Means, Nic, megabits},
    plan::{Class, FIRST_DESTINATION, Plan, ROOT, quoted},
    readback::Comparison,
    request::Wanted,
};

/// Formats the plan as a shell script, with the reasons as comments.
pub(crate) fn plan(plan: &Plan, wanted: &Wanted, nic: &Nic) -> String {
    let ids: Vec<String> = wanted.sources.iter().map(ToString::to_string).collect();
    let (device, builders) = (&plan.device, wanted.request.destinations.len());
    let mut text = format!("# {device}: sources {} towards {builders} builders\n", ids.join(", "));
    for note in wanted.notes.iter().chain(&plan.notes) {
        comment(&mut text, note);
    }
    text += "#\n# class    what         guaranteed       ceiling          burst     SO_PRIORITY (with CAP_NET_ADMIN)\n";
    for class in &plan.classes {
        text += &row(class);
    }
    text += "#\n# What the network card itself can do (`apply --nic` uses it):\n";
    let _ = writeln!(text, "#   HTB offload (the card keeps the rates): {}", nic.htb_offload.word());
    match (&nic.queues[..], nic.queue_rate) {
        ([(file, _)], Means::There) => {
            let limit = megabits(wanted.request.link);
            let _ = writeln!(text, "#   a limit of its own (tx_maxrate): echo {limit} > {}", file.display());
        }
        _ => {
            let _ = writeln!(text, "#   {}, and nothing needs to be done", nic.why_unlimited());
        }
    }
    text += "#\nset -e\n";
    for step in &plan.steps {
        let _ = writeln!(text, "tc {}", spelled(step));
    }
    let _ = writeln!(text, "# and back to the kernel's default: tc qdisc del dev {} root", quoted(device));
    text
}

/// Formats the row of a class.
fn row(class: &Class) -> String {
    let handle = format!("{ROOT}{:x}", class.minor);
    let burst = class.bucket.map_or(class.burst, |(_, depth)| depth);
    let ceiling = class.bucket.map_or(class.ceiling, |(rate, _)| rate);
    // HTB puts a packet into the class whose handle equals the priority of the packet's socket.
    let priority = class.priority.map(|_| format!("{:#x}", 0x0e7b_0000 | u32::from(class.minor)));
    format!(
        "# {handle:<8} {:<12} {:<16} {:<16} {:<9} {}\n",
        class.name,
        class.rate.to_string(),
        ceiling.to_string(),
        burst.to_string(),
        priority.unwrap_or_default()
    )
}

/// Appends a comment to the script, broken into lines of readable length.
fn comment(text: &mut String, note: &str) {
    let mut line = String::from("#");
    for word in note.split(' ') {
        if line.len() + word.len() > 110 {
            text.push_str(&line);
            text.push('\n');
            line = "#  ".into();
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Formats the state of a device, and whether it equals the plan.
pub(crate) fn comparison(plan: &Plan, comparison: &Comparison) -> String {
    let mut text = format!("{:<10} {:<14} {:>14} {:>10}\n", "class", "what", "sent", "dropped");
    for (minor, shown) in &comparison.classes {
        let name = plan.classes.iter().find(|class| class.minor == *minor).map_or("?", |class| &class.name);
        let handle = format!("{ROOT}{minor:x}");
        let sent = Bytes::new(shown.sent).to_string();
        let _ = writeln!(text, "{handle:<10} {name:<14} {sent:>14} {:>10}", shown.dropped);
    }
    for difference in &comparison.differences {
        let _ = writeln!(text, "different: {difference}");
    }
    let destinations = plan.classes.iter().filter(|class| class.minor >= FIRST_DESTINATION).count();
    let _ = match comparison.differences.len() {
        0 => writeln!(
            text,
            "{}: as the configuration asks: {destinations} destinations, {} filters",
            plan.device,
            plan.filters.len()
        ),
        more => writeln!(
            text,
            "{}: different from the configuration in {}, so rates may not be kept: `evbd provision CONFIG apply --device {}` sets it up",
            plan.device,
            counted(more, "point"),
            plan.device
        ),
    };
    text
}
