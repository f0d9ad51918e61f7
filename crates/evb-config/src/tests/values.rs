use std::time::Duration;

use evb_core::{
    id::{EventId, RunNumber, SourceId},
    units::{Bytes, Rate},
};

use super::{super::*, bad, good};

#[test]
fn defaults_are_the_documented_ones() {
    let config = good("");
    assert_eq!(config.run, RunConfig { number: None, events: None, duration: None, seed: 1 });
    let supervisor = config.supervisor;
    assert_eq!((supervisor.slots, supervisor.run_length), (None, 1));
    assert_eq!(supervisor.deadline, Duration::from_secs(2));
    assert_eq!(
        (supervisor.start_timeout, supervisor.orphan_timeout),
        (Duration::from_secs(30), Duration::from_secs(10))
    );
    assert_eq!(supervisor.policy, AssignmentPolicy::RoundRobin);
    assert_eq!(config.network.mtu, Bytes::new(1500));
    assert!(config.network.nodelay && config.network.admission == Admission::Refuse);
    assert_eq!(config.security, SecurityMode::LoopbackOnly);
    assert_eq!(config.shaping.mode, ShapingMode::Credit);
    assert_eq!((config.shaping.budget, config.shaping.chunk), (Bytes::mib(8), Bytes::kib(256)));
    assert_eq!(config.builders[0].budget, Bytes::mib(8));
    assert_eq!(
        (config.sources[0].max_fragment, config.sources[0].backlog),
        (Bytes::new(1000), Bytes::mib(256))
    );
    assert_eq!(config.builders[0].filter, FilterEntry::AcceptAll);
}

#[test]
fn filters_without_a_key_have_a_short_form() {
    for (name, filter) in [
        ("require-complete", FilterEntry::RequireComplete),
        ("require-whole", FilterEntry::RequireWhole),
        ("require-aligned", FilterEntry::RequireAligned),
    ] {
        let builder = "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
        assert_eq!(good(&format!("{builder}filter = \"{name}\"\n")).builders[0].filter, filter);
    }
}

#[test]
fn sources_and_builders_may_have_names() {
    let config = good(
        "[[source]]\nids = \"1-2\"\nname = \"crate {id+10}\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[builder]]\nid = 1\nname = \"crate 11\"\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n",
    );
    let names: Vec<_> = config.sources.iter().map(|source| source.name.as_deref()).collect();
    assert_eq!(names, [Some("crate 11"), Some("crate 12")]);
    assert_eq!(config.builders[0].name.as_deref(), Some("crate 11"), "a builder may have a source's name");
    assert_eq!(good("").sources[0].name, None);
}

#[test]
fn run_and_triggers() {
    let config = good("[run]\nnumber = 12\nevents = 100_000\nduration = \"10 s\"\nseed = 0\n");
    let run = RunConfig {
        number: Some(RunNumber::new(12)),
        events: Some(100_000),
        duration: Some(Duration::from_secs(10)),
        seed: 0,
    };
    assert_eq!(config.run, run);
    let trigger = |text: &str| {
        good(&format!("[supervisor]\nlisten = \"localhost:7000\"\ntrigger = {text}\n")).supervisor.trigger
    };
    let poisson = trigger("{ kind = \"poisson\", rate = \"1 kHz\" }");
    assert_eq!(poisson.events_per_second(), Some(1000.0));
    assert_eq!(trigger("\"as-fast-as-possible\""), TriggerConfig::AsFastAsPossible);
    assert_eq!(trigger("{ kind = \"as-fast-as-possible\" }"), TriggerConfig::AsFastAsPossible);
    let external = trigger("{ kind = \"external\", listen = \"[::1]:7001\", protocol = \"udp\" }");
    let listen = Endpoint { host: "::1".into(), port: 7001 };
    assert_eq!(external, TriggerConfig::External { listen, protocol: TriggerProtocol::Udp });
}

#[test]
fn ids_expand_with_their_templates() {
    let config = good(
        "[security]\nmode = \"none\"\n\
         [[source]]\nids = \"1-22\"\nbind = \"10.77.1.{id}\"\n\
         input = { kind = \"replay\", path = \"in/{id}.dat\", format = \"km3net\", module = \"{id-1}\" }\n\
         [[builder]]\nids = \"1-15\"\nlisten = \"10.77.2.{id}:{7100+id}\"\nsink = { kind = \"file\", path = \"out/b{id}\" }\n",
    );
    assert_eq!((config.sources.len(), config.builders.len()), (22, 15));
    let last = &config.sources[21];
    assert_eq!((last.id, last.bind.as_deref()), (SourceId::new(22), Some("10.77.1.22")));
    let format = ReplayFormat::Km3net { module: 21 };
    assert_eq!(last.input, Input::Replay { path: "in/22.dat".into(), format, on: MadeOn::Decision });
    assert_eq!(config.builders[14].listen.to_string(), "10.77.2.15:7115");
    assert!(
        matches!(&config.builders[14].sinks[..], [SinkEntry::File { path, .. }] if path.ends_with("b15"))
    );
}

#[test]
fn sizes_set_max_fragment() {
    let source =
        |input: &str| good(&format!("[[source]]\nid = 3\ninput = {{ {input} }}\n")).sources.remove(0);
    assert_eq!(source("kind = \"generator\", size = \"8 kB\"").max_fragment, Bytes::new(8000));
    let spread = source("kind = \"generator\", size = { mean = \"8 kB\", sigma = \"1 kB\" }");
    assert_eq!(spread.max_fragment, Bytes::new(16_000));
    assert_eq!(source("kind = \"tcp\", listen = \"127.0.0.1:1\"").max_fragment, Bytes::mib(4));
    let Input::Replay { format, .. } = source("kind = \"replay\", path = \"a\", format = \"evb\"").input
    else {
        panic!("a replay")
    };
    assert_eq!(format, ReplayFormat::Evb { source: SourceId::new(3), run: None });
    let input = source("kind = \"replay\", path = \"a\", format = \"evb\", run = \"5eed\"").input;
    let run = "5eed".parse().ok();
    let format = ReplayFormat::Evb { source: SourceId::new(3), run };
    assert_eq!(input, Input::Replay { path: "a".into(), format, on: MadeOn::Decision });
}

#[test]
fn a_generator_listens_to_the_supervisors_group() {
    let config = good(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\n\
         trigger = { kind = \"multicast\", group = \"239.1.2.3:7002\", interface = \"127.0.0.1\" }\n\
         [[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\", on = \"multicast\" }\n",
    );
    let TriggerConfig::Multicast(group) = config.supervisor.trigger else { panic!("multicast") };
    let Input::Generator { on, .. } = &config.sources[0].input else { panic!("a generator") };
    assert_eq!(*on, MadeOn::Multicast(group));
}

#[test]
fn a_generator_may_have_a_planted_fault() {
    let faults = |fault: &str, clock: &str| {
        let config = good(&format!(
            "[[source]]\nids = \"1-2\"\ninput = {{ kind = \"generator\", size = \"1 kB\"{fault} }}\n{clock}"
        ));
        let fault = |source: &SourceEntry| match source.input {
            Input::Generator { fault, .. } => fault,
            _ => panic!("a generator"),
        };
        config.sources.iter().map(fault).collect::<Vec<_>>()
    };
    let clock = "clock = { rate = \"125 MHz\", bits = 48 }\n";
    let planted = |slip, at| Some(PlantedFault { slip, at: EventId::new(at) });
    assert_eq!(faults("", ""), [None, None]);
    assert_eq!(faults(", fault = { slip = -16, at = 17 }", clock), [planted(-16, 17); 2]);
    let of_id = ", fault = { slip = \"{id}\", at = \"{id+10}\" }";
    assert_eq!(faults(of_id, clock), [planted(1, 11), planted(2, 12)]);
    assert_eq!(faults(", fault = { slip = \"-2\", at = 3 }", clock), [planted(-2, 3); 2]);
}

#[test]
fn builders_of_one_port_share_its_budget() {
    let builders = |port: &str| {
        format!(
            "[network]\nport_buffer = \"128 KiB\"\n[security]\nmode = \"none\"\n\
             [[builder]]\nids = \"1-2\"\nlisten = \"10.0.0.{{id}}:7101\"\nsink = \"null\"\n{port}"
        )
    };
    let apart = good(&builders(""));
    let budget = nine_tenths(Bytes::kib(128));
    assert_eq!(budget, Bytes::new(117_964));
    assert_eq!(apart.shaping.budget, budget);
    assert_eq!(apart.builders[1].budget, budget);
    assert_eq!(apart.shaping.chunk, Bytes::new(13_016));
    let together = good(&builders("port = \"trunk\"\n"));
    assert_eq!(together.shaping.budget, budget);
    assert_eq!(together.builders[0].budget, budget / 2);
}

#[test]
fn a_window_and_a_rate_follow_from_the_network() {
    let network = "[network]\nlink_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"\n";
    let source = "[[source]]\nids = \"1-8\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n";
    // Eight lanes divide 117 964 bytes, so that each gets 9 packets of 1514 bytes; the header of a
    // record is subtracted from their payload.
    let window = good(&format!("{network}[shaping]\nmode = \"window\"\n{source}")).shaping.window;
    assert_eq!(window, Bytes::new(9 * 1448 - 16));
    let shaping = good(&format!("{network}[shaping]\nmode = \"token-bucket\"\n{source}")).shaping;
    assert_eq!(shaping.rate, Some(Rate::from_bits_per_second(950_000_000 / 8)));
}

#[test]
fn what_ports_share_bounds_their_budgets_together() {
    let builder = |id: u16| {
        format!(
            "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{}\"\nsink = \"null\"\nport = \"p{id}\"\n",
            7100 + id
        )
    };
    let system = |shared: &str| {
        let text = format!(
            "[network]\nport_buffer = \"100 kB\"\n{shared}{}{}{}",
            builder(1),
            builder(2),
            builder(3)
        );
        good(&text).builders.iter().map(|builder| builder.budget.count()).collect::<Vec<_>>()
    };
    assert_eq!(system(""), [90_000; 3]);
    let asic = "[[network.shared]]\nname = \"asic\"\nbuffer = \"100 kB\"\nmembers = [\"p1\", \"p2\"]\n";
    assert_eq!(system(asic), [45_000, 45_000, 90_000]);
    let trunk = "[[network.shared]]\nname = \"trunk\"\nbuffer = \"150 kB\"\nmembers = [\"p3\", \"asic\"]\n";
    assert_eq!(system(&format!("{trunk}{asic}")), [45_000, 45_000, 45_000]);
}

#[test]
fn a_ring_of_shared_buffers_is_refused() {
    let shared = |name: &str, member: &str| {
        format!("[[network.shared]]\nname = \"{name}\"\nbuffer = \"1 MiB\"\nmembers = [\"{member}\"]\n")
    };
    let text = format!("[network]\nport_buffer = \"100 kB\"\n{}{}", shared("a", "b"), shared("b", "a"));
    assert!(bad(&text).to_string().contains("a member of itself"));
}

#[test]
fn classes_have_defaults_that_fit_any_link() {
    let config = good("[network]\nlink_rate = \"1 Gbit/s\"\n[shaping.classes]\n");
    let classes = config.shaping.classes.expect("asked for");
    assert_eq!(classes.data.guaranteed.bits_per_second(), 800_000_000);
    assert_eq!(classes.control.dscp, Some(48));
    assert_eq!(classes.all().map(|(_, class)| class.priority), [1, 0, 2, 3]);
}

#[test]
fn a_builders_rate_goes_before_that_of_all() {
    let config = good(
        "[shaping]\nrate = \"10 Mbit/s\"\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\nrate = \"30 Mbit/s\"\n\
         [[builder]]\nid = 2\nlisten = \"127.0.0.1:7102\"\nsink = \"null\"\n",
    );
    let rates = config
        .builders
        .iter()
        .map(|builder| config.lane_pace(builder).map(|pace| pace.rate.bits_per_second()));
    assert_eq!(rates.collect::<Vec<_>>(), [Some(30_000_000), Some(10_000_000)]);
}

#[test]
fn groups_and_sporadic_sources_have_their_values() {
    let config = good(
        "[[source]]\nids = \"1-3\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[source]]\nid = 4\nowes = \"none\"\nwait = \"5 ms\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[source]]\nid = 5\nowes = \"none\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[group]]\nname = \"tracker\"\nsources = \"1-2, 4\"\nat_least = 2\n\
         [[group]]\nname = \"all\"\nsources = \"1-5\"\n",
    );
    let groups: Vec<_> = config
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.sources.len(), group.at_least))
        .collect();
    assert_eq!(groups, [("tracker", 3, 2), ("all", 5, 0)]);
    let sporadic: Vec<_> = config.sources.iter().map(|source| source.sporadic).collect();
    let wait = Duration::from_millis(5);
    assert_eq!(sporadic, [None, None, None, Some(wait), Some(Duration::ZERO)]);
}
