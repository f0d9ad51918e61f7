use std::collections::VecDeque;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure,
    cost::{CELL, PacketCost},
};

use super::{
    executor::{Root, TcError, TrafficControl, apply, remove, root, spelled},
    filter::{Key, Match},
    nic::tc_offload,
    plan::{Bucket, Destination, PlanError, Request, quoted},
    readback::{classes, compare, filters},
    request::BuilderRate,
    traffic::{ClassOption, Sharing},
    *,
};

const MBIT: u64 = 1_000_000;

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * MBIT)
}

fn request(addresses: &[&str], rate: Option<Rate>) -> Request {
    let Sharing { data, classes } = Sharing::of_link(mbit(1_000));
    let destination = |(id, address): (u16, &&str)| Destination {
        builder: evb_core::id::BuilderId::new(id),
        addresses: vec![address.parse().unwrap()],
        rate,
        burst: rate.map(|_| Bytes::new(6_056)),
    };
    Request {
        device: "eth0".into(),
        link: mbit(1_000),
        frame: Bytes::new(1_514),
        bucket: Bucket::Htb,
        offload: false,
        destinations: (1..).zip(addresses).map(destination).collect(),
        data,
        classes,
        control: vec![Match::To("10.0.0.9:7000".parse().unwrap())],
    }
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| spelled(step)).collect()
}

#[test]
fn a_plan_in_tcs_words() {
    let plan = plan::plan(&request(&["10.0.0.1:7101", "[fd00::1]:7101"], Some(mbit(100)))).unwrap();
    let lines = lines(&plan);
    assert_eq!(lines[0], "qdisc add dev eth0 root handle e7b: htb default 5");
    let has = |line: &str| assert!(lines.iter().any(|l| l == line), "no `{line}` in\n{}", lines.join("\n"));
    // HTB lets one packet exceed the saved tokens, so that the burst is 6056 − 1514 bytes.
    has(
        "class add dev eth0 parent e7b:2 classid e7b:100 htb rate 100000000bit ceil 100000000bit burst 4542b cburst 4542b \
         quantum 3028 prio 1",
    );
    has("qdisc add dev eth0 parent e7b:101 handle e901: pfifo limit 1000");
    has(
        "filter add dev eth0 parent e7b: protocol ip prio 10 u32 match ip dst 10.0.0.1/32 match ip dport 7101 0xffff \
         flowid e7b:100",
    );
    has(
        "filter add dev eth0 parent e7b: protocol ipv6 prio 11 u32 match ip6 dst fd00::1/128 match ip6 dport 7101 0xffff \
         flowid e7b:101",
    );
    // The code point CS6 (48) occupies the upper six bits of the header's second byte.
    has(
        "filter add dev eth0 parent e7b: protocol ip prio 30 u32 match u32 0x00c00000 0x00fc0000 at 0 flowid e7b:3",
    );
    // Parents must be added before their children.
    for (at, class) in plan.classes.iter().enumerate() {
        assert!(class.parent == 0 || plan.classes[..at].iter().any(|parent| parent.minor == class.parent));
    }
}

#[test]
fn a_bucket_of_its_own_never_waits_for_the_class_around_it() {
    let wish = Request { bucket: Bucket::Tbf, ..request(&["10.0.0.1:7101"], Some(mbit(100))) };
    let plan = plan::plan(&wish).unwrap();
    let class = plan.classes.iter().find(|class| class.minor == plan::FIRST_DESTINATION).unwrap();
    assert_eq!((class.ceiling, class.bucket), (mbit(1_000), Some((mbit(100), Bytes::new(6_056)))));
    let tbf =
        "qdisc add dev eth0 parent e7b:100 handle e900: tbf rate 100000000bit burst 6056b limit 2500000b";
    assert!(lines(&plan).iter().any(|line| line == tbf), "{:?}", lines(&plan));
}

#[test]
fn guarantees_never_exceed_the_link() {
    for count in [1, 3, 15] {
        let addresses: Vec<String> = (1..=count).map(|i| format!("10.0.0.{i}:7101")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        for rate in [None, Some(mbit(10)), Some(mbit(950)), Some(mbit(2_000))] {
            let plan = plan::plan(&request(&addresses, rate)).unwrap();
            for parent in &plan.classes {
                let children = plan.classes.iter().filter(|class| class.parent == parent.minor);
                let (mut sum, mut any) = (0, false);
                for child in children {
                    assert!(child.rate <= child.ceiling && child.ceiling <= mbit(1_000), "{child:?}");
                    sum += child.rate.bits_per_second();
                    any = true;
                }
                assert!(
                    !any || sum <= parent.rate.bits_per_second(),
                    "{rate:?} {count}: {sum} in {parent:?}"
                );
            }
        }
    }
}

#[test]
fn impossible_wishes_are_refused() {
    let good = request(&["10.0.0.1:7101"], Some(mbit(100)));
    for name in ["", "a/b", "-j", "a b", "sixteen-letters!", "..", "a;\nreboot"] {
        let wish = Request { device: name.into(), ..good.clone() };
        assert_eq!(plan::plan(&wish), Err(PlanError::Device(name.into())));
    }
    let mut greedy = good.clone();
    for class in &mut greedy.classes {
        class.share.guaranteed = mbit(400);
    }
    assert!(matches!(plan::plan(&greedy), Err(PlanError::NothingLeft { .. })));
    let mut tiny = good;
    tiny.destinations[0].burst = Some(Bytes::new(1_000));
    assert!(matches!(plan::plan(&tiny), Err(PlanError::Burst { .. })));
}

#[test]
fn what_is_printed_can_be_typed() {
    assert_eq!(quoted("eth0.100"), "eth0.100");
    assert_eq!(quoted("a;rm -r"), "'a;rm -r'");
    assert_eq!(quoted("it's"), "'it'\\''s'");
    assert_eq!(quoted(""), "''");
    let mut wish = request(&["10.0.0.1:7101"], None);
    wish.device = "w$(x)".into();
    wish.classes[0].socket_priority = Some(6);
    let lines = lines(&plan::plan(&wish).unwrap());
    assert_eq!(lines[0], "qdisc add dev 'w$(x)' root handle e7b: htb default 5");
    assert!(
        lines.last().unwrap().contains("protocol all prio 40 basic match 'meta(priority eq 6)' flowid e7b:3")
    );
}

#[test]
fn addresses_as_the_kernel_holds_them() {
    let to: Match = Match::To("10.99.0.2:7101".parse().unwrap());
    let key = |value, mask, offset| Key { value, mask, offset };
    assert_eq!(to.keys(), [key(0x0a63_0002, u32::MAX, 16), key(7101, 0xffff, 20)]);
    let from = Match::From("[fd00::1]:7000".parse().unwrap());
    let words = [(0xfd00_0000, 8), (0, 12), (0, 16), (1, 20)];
    let mut expected: Vec<Key> = words.map(|(value, offset)| key(value, u32::MAX, offset)).to_vec();
    expected.push(key(7000 << 16, 0xffff_0000, 40));
    assert_eq!(from.keys(), expected);
    // The code point EF (46) is 0xb8 in the header's byte.
    assert_eq!(Match::Dscp4(46).keys(), [key(0x00b8_0000, 0x00fc_0000, 0)]);
    assert_eq!(Match::Dscp6(46).keys(), [key(0x0b80_0000, 0x0fc0_0000, 0)]);
}

/// Converts a line rate to the rate of L2 frames, which are 1514 of the 1538 bytes of a full
/// packet.
fn in_frames(rate: Rate) -> Rate {
    PacketCost::tcp(1500, CELL).rate_in(rate, ByteMeasure::Line, ByteMeasure::Buffer)
}

#[test]
fn classes_on_the_command_line() {
    let option: ClassOption =
        "control,rate=10 Mbit/s,ceiling=50 Mbit/s,prio=1,dscp=46+34,priority=6".parse().unwrap();
    let mut sharing = Sharing::of_link(mbit(1_000));
    sharing.change(&[option], in_frames);
    let control = &sharing.classes[0];
    assert_eq!(control.share.guaranteed, in_frames(mbit(10)));
    assert_eq!((control.share.priority, control.socket_priority), (1, Some(6)));
    assert_eq!(control.dscp, [46, 34]);
    for bad in ["", "data", "control,rate", "control,rate=5", "other,dscp=64", "other,prio=8", "other,size=1"]
    {
        assert!(bad.parse::<ClassOption>().is_err(), "{bad}");
    }
    assert!("1=100Mbit/s".parse::<BuilderRate>().is_ok());
    for bad in ["100Mbit/s", "x=1Mbit/s", "1=100"] {
        assert!(bad.parse::<BuilderRate>().is_err(), "{bad}");
    }
}

/// A replacement for `tc` that records its commands, and fails at one command.
#[derive(Default)]
struct Recorded {
    roots: VecDeque<&'static str>,
    asked: Vec<String>,
    refuse: Vec<usize>,
}

impl TrafficControl for Recorded {
    fn run(&mut self, arguments: &[String]) -> Result<String, TcError> {
        if arguments[0] == "-j" {
            return Ok(self.roots.pop_front().unwrap_or("[]").into());
        }
        let command = spelled(arguments);
        self.asked.push(command.clone());
        match self.refuse.contains(&self.asked.len()) {
            true => Err(TcError::Refused { command, said: "no".into() }),
            false => Ok(String::new()),
        }
    }
}

const DEFAULT: &str = r#"[{"kind":"fq_codel","handle":"0:","root":true,"refcnt":2,"options":{}}]"#;
const OURS: &str = r#"[{"kind":"htb","handle":"e7b:","root":true,"refcnt":2,"options":{}}]"#;
const FOREIGN: &str = r#"[{"kind":"htb","handle":"1:","root":true,"refcnt":2,"options":{}}]"#;

#[test]
fn all_of_it_or_the_default() {
    let plan = plan::plan(&request(&["10.0.0.1:7101"], Some(mbit(100)))).unwrap();
    for failing in 1..=plan.steps.len() {
        let mut tc = Recorded { roots: [DEFAULT].into(), refuse: vec![failing], ..Recorded::default() };
        assert!(matches!(apply(&mut tc, &plan, false), Err(ProvisionError::RolledBack { .. })));
        assert_eq!(
            tc.asked.len(),
            failing + 1,
            "after the failure, the only command is the one that undoes the others"
        );
        assert_eq!(tc.asked.last().unwrap(), "qdisc del dev eth0 root");
    }
    let mut tc = Recorded { roots: [DEFAULT].into(), refuse: vec![3, 4], ..Recorded::default() };
    assert!(matches!(apply(&mut tc, &plan, false), Err(ProvisionError::LeftOver { .. })));
    let mut tc = Recorded { roots: [OURS].into(), ..Recorded::default() };
    assert_eq!(apply(&mut tc, &plan, false).unwrap(), Root::Ours);
    assert_eq!(tc.asked[0], "qdisc del dev eth0 root");
    assert_eq!(tc.asked[1..], lines(&plan));
}

#[test]
fn what_is_somebody_elses_stays() {
    let plan = plan::plan(&request(&["10.0.0.1:7101"], None)).unwrap();
    let mut tc = Recorded { roots: [FOREIGN, FOREIGN].into(), ..Recorded::default() };
    assert!(matches!(apply(&mut tc, &plan, false), Err(ProvisionError::Foreign { .. })));
    assert!(matches!(remove(&mut tc, "eth0", false), Err(ProvisionError::Foreign { .. })));
    assert!(tc.asked.is_empty());
    let mut tc = Recorded { roots: [FOREIGN].into(), ..Recorded::default() };
    assert_eq!(remove(&mut tc, "eth0", true).unwrap(), Root::Foreign("htb 1:".into()));
    assert_eq!(tc.asked, ["qdisc del dev eth0 root"]);
    let mut tc = Recorded { roots: [DEFAULT].into(), ..Recorded::default() };
    assert_eq!(remove(&mut tc, "eth0", false).unwrap(), Root::Default("fq_codel".into()));
    assert!(tc.asked.is_empty());
    let mut tc = Recorded { roots: ["not JSON"].into(), ..Recorded::default() };
    assert!(matches!(root(&mut tc, "eth0"), Err(TcError::Garbled { .. })));
}

/// Text of `tc -s class show` as iproute2 6.1 prints it.
const CLASSES: &str = "class htb e7b:1 root rate 984395Kbit ceil 984395Kbit burst 24363b cburst 24363b
 Sent 4096 bytes 4 pkt (dropped 2, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb e7b:100 parent e7b:1 leaf e900: prio 1 rate 1Gbit ceil 98439Kbit burst 15Kb cburst 1600b
class tbf e900:1 parent e900:
class fq_codel 0:1 parent
class htb garbled";

const FILTERS: &str = "filter protocol ip pref 10 u32 chain 0
filter protocol ip pref 10 u32 chain 0 fh 800: ht divisor 1
filter protocol ip pref 10 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 *flowid e7b:100 not_in_hw
  match 0a630002/ffffffff at 16
  match 00001bbd/0000ffff at 20
filter protocol ip pref 10 u32 chain 0 fh 800::801 order 2049 key ht 800 bkt 0 flowid e7b:100 not_in_hw
  match zz/ffffffff at 16";

#[test]
fn tcs_text_is_read_and_what_is_not_understood_is_left() {
    let classes = classes(CLASSES);
    assert_eq!(classes.keys().copied().collect::<Vec<_>>(), [1, 0x100]);
    assert_eq!((classes[&1].sent, classes[&1].dropped), (4096, 2));
    let filters = filters(FILTERS);
    let keys = &filters[&("ip 10".to_owned(), 0x100)];
    assert_eq!(keys[0], Match::To("10.99.0.2:7101".parse().unwrap()).keys());
    assert_eq!(keys[1], []);
}

#[test]
fn nothing_there_is_different_in_every_point() {
    let plan = plan::plan(&request(&["10.0.0.1:7101"], None)).unwrap();
    let found = compare(&mut Recorded::default(), &plan).unwrap();
    assert_eq!(found.differences.len(), plan.classes.len() + plan.filters.len());
}

#[test]
fn fixed_off_is_not_on_this_device() {
    assert_eq!(tc_offload("Features for d0:\nhw-tc-offload: off [fixed]\n"), Means::NotOnThisDevice);
    assert_eq!(tc_offload("hw-tc-offload: off\n"), Means::There);
    assert_eq!(tc_offload(""), Means::Unknown);
}

#[test]
fn a_limit_of_the_card_that_is_not_used_has_a_reason() {
    let why = |queue_rate, queues| {
        let queues = vec![("/sys/tx".into(), Some(0)); queues];
        Nic { queues, queue_rate, htb_offload: Means::Unknown }.why_unlimited()
    };
    assert_eq!(why(Means::NotOnThisDevice, 4), "this network card has no limit of its own (tx_maxrate)");
    assert!(why(Means::There, 4).contains("each of the 4 queues"), "{}", why(Means::There, 4));
    assert!(why(Means::NeedsRoot, 1).contains("only root"), "{}", why(Means::NeedsRoot, 1));
}

#[test]
fn the_configurations_classes_are_the_kernels() {
    let text = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = { kind = \"periodic\", rate = \"10 Hz\" }\n\
        [network]\nlink_rate = \"100 Mbit/s\"\n\
        [shaping.classes]\ndata = { guaranteed = \"76900 kbit/s\" }\nother = { guaranteed = \"2 Mbit/s\", dscp = 8 }\n\
        [[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
        [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    let config = evb_config::read(text, "test.toml").expect("a configuration").config;
    let classes = config.shaping.classes.expect("classes");
    let sharing = Sharing::of_config(&classes, in_frames);
    // L2 frames are 1514 of the 1538 line bytes of a full packet.
    assert_eq!(sharing.data.guaranteed, Rate::from_bits_per_second(75_700_000));
    assert_eq!(
        sharing.classes.iter().map(|class| class.dscp.clone()).collect::<Vec<_>>(),
        [vec![48], vec![], vec![8]]
    );
    assert_eq!(sharing.classes[2].share.priority, 3);
}

/// Returns a configuration with two sources of this host and two builders; builder 2 has its own
/// rate.
fn configured(shaping: &str) -> evb_config::Config {
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"periodic\", rate = \"10 Hz\" }}\n\
         [network]\nlink_rate = \"1538 Mbit/s\"\n[shaping]\n{shaping}\n\
         [[source]]\nids = \"1-2\"\nbind = \"127.0.0.1\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n\
         [[builder]]\nid = 2\nlisten = \"[::1]:7102\"\nsink = \"null\"\nrate = \"20 Mbit/s\"\n"
    );
    match evb_config::read(&text, "test.toml") {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{problems}"),
    }
}

fn wishes() -> Wishes {
    Wishes {
        device: "lo".into(),
        sources: Vec::new(),
        link_rate: None,
        rates: Vec::new(),
        burst: None,
        classes: Vec::new(),
        counted: ByteMeasure::Line,
        bucket: Bucket::Htb,
    }
}

#[test]
fn rates_of_lanes_become_those_of_destinations() {
    let rates = |config: &evb_config::Config, wishes: &Wishes| -> Vec<u64> {
        let wanted = request::request(config, wishes, false).unwrap();
        assert_eq!(wanted.sources.len(), 2);
        wanted.request.destinations.iter().map(|d| d.rate.unwrap().bits_per_second()).collect()
    };
    let buffer = configured("rate = \"10 Mbit/s\"\nrate_counts = \"buffer\"");
    // Each of the two sources of this host has a lane to each builder.
    assert_eq!(rates(&buffer, &wishes()), [20 * MBIT, 40 * MBIT]);
    let line = configured("rate = \"15380 kbit/s\"");
    assert_eq!(rates(&line, &wishes())[0], 30_280_000);
    let given = vec!["1=100 Mbit/s".parse().unwrap()];
    let counted = ByteMeasure::Buffer;
    assert_eq!(rates(&line, &Wishes { rates: given, counted, ..wishes() })[0], 100 * MBIT);
    let depths = |config: &evb_config::Config, wishes: &Wishes| {
        let wanted = request::request(config, wishes, false).unwrap();
        (
            wanted.request.destinations[0].burst,
            wanted.notes.iter().any(|note| note.contains("may not hold the rate")),
        )
    };
    // The default depth is ten milliseconds of both lanes' rates of 15.14 Mbit/s.
    assert_eq!(depths(&line, &wishes()), (Some(Bytes::new(2 * 18_925)), false));
    let mut shallow = line.clone();
    shallow.network.port_buffer = Some(Bytes::new(20_000));
    assert_eq!(depths(&shallow, &wishes()), (Some(Bytes::new(18_000)), false));
    assert_eq!(
        depths(&configured("rate = \"1 Gbit/s\"\nburst = \"4 kB\""), &wishes()),
        (Some(Bytes::new(4_000)), true)
    );
    let wanted = request::request(&line, &wishes(), false).unwrap().request;
    assert_eq!(wanted.link, mbit(1_514));
    assert!(wanted.control.contains(&Match::From("[::1]:7102".parse().unwrap())));
}

#[test]
fn what_is_not_known_is_asked_for() {
    let config = configured("");
    let fails = |wishes: &Wishes| request::request(&config, wishes, false).unwrap_err().to_string();
    assert!(fails(&Wishes { sources: vec![9], ..wishes() }).contains("--source names source 9"));
    let rates = vec!["7=1 Mbit/s".parse().unwrap()];
    assert!(fails(&Wishes { rates, ..wishes() }).contains("builder 7"));
    let mut elsewhere = config.clone();
    for source in &mut elsewhere.sources {
        source.bind = Some("192.0.2.1".into());
    }
    let error = request::request(&elsewhere, &wishes(), false).unwrap_err();
    assert!(error.to_string().contains("--source"), "{error}");
    elsewhere.network.link_rate = None;
    let error = request::request(
        &elsewhere,
        &Wishes { sources: vec![1], device: "no-such".into(), ..wishes() },
        false,
    )
    .unwrap_err();
    assert!(error.to_string().contains("--link-rate"), "{error}");
}
