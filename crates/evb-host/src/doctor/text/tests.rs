use evb_net::host::Unavailable;
use serde_json::Value;

use super::{
    super::finding::{Finding, Judgement, Subject},
    page,
};

fn judgement(value: &str) -> Judgement {
    Judgement::new(value, Value::Null)
}

#[test]
fn reasons_and_commands_stand_where_something_is_to_be_done() {
    let eth0 = || Subject::Device("eth0".into());
    let missing = |name| Finding::of(eth0(), name, "why", Err(Unavailable::new("no hardware")));
    let findings = [
        Finding::of(Subject::Host, "cores", "they work", Ok(judgement("8 of 8").good())),
        missing("rings"),
        missing("coalescing"),
        Finding::of(eth0(), "MTU", "too small", Ok(judgement("1400").better(Some("ip link".into())))),
        Finding::of(eth0(), "link", "no way", Ok(judgement("down").bad(None))),
    ];
    let expected = "
host
  good            cores              8 of 8

device eth0
  unknown         rings, coalescing  not available, which stops no run: no hardware
  could be better MTU                1400
                                       too small
                                     > ip link
  BAD             link               down
                                       no way

1 bad, 1 could be better, 1 good, 2 unknown
With what is bad, evb does not work reliably: change it before a run.
A line with > is a command for root that improves what is above it.
";
    assert_eq!(page(&findings), expected);
}

#[test]
fn many_good_peers_are_summed_up_and_bad_ones_are_not() {
    let path = |number: usize, judgement| {
        Finding::of(Subject::Path(format!("peer-{number}.")), "path MTU", "why", Ok(judgement))
    };
    let mut findings: Vec<Finding> = (0..20).map(|number| path(number, judgement("1500").good())).collect();
    findings[15] = path(15, judgement("1500").bad(None));
    let page = page(&findings);
    assert!(page.contains("peer-7.") && !page.contains("peer-8.") && page.contains("peer-15."), "{page}");
    assert!(page.contains("\n11 more peers, all good"), "{page}");
}
