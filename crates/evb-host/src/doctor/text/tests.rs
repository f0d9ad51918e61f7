use evb_net::host::Unavailable;

use super::{
    super::finding::{Finding, Subject},
    page,
};

#[test]
fn reasons_and_commands_stand_where_something_is_to_be_done() {
    let eth0 = || Subject::Device("eth0".into());
    let missing = |name| Finding::missing(eth0(), name, &Unavailable::new("no hardware"), "why");
    let findings = [
        Finding::new(Subject::Host, "cores", "8 of 8", "they work").good(),
        missing("rings"),
        missing("coalescing"),
        Finding::new(eth0(), "MTU", "1400", "too small").better(Some("ip link".into())),
        Finding::new(eth0(), "link", "down", "no way").bad(None),
    ];
    let expected = "
host
  good    cores              8 of 8

device eth0
  ?       rings, coalescing  not available: no hardware
  better  MTU                1400
                               too small
                             > ip link
  BAD     link               down
                               no way

1 bad, 1 could be better, 1 good, 2 unknown
";
    assert_eq!(page(&findings), expected);
}

#[test]
fn many_good_peers_are_summed_up_and_bad_ones_are_not() {
    let path =
        |number: usize| Finding::new(Subject::Path(format!("peer-{number}.")), "path MTU", "1500", "why");
    let mut findings: Vec<Finding> = (0..20).map(|number| path(number).good()).collect();
    findings[15] = path(15).bad(None);
    let page = page(&findings);
    assert!(page.contains("peer-7.") && !page.contains("peer-8.") && page.contains("peer-15."), "{page}");
    assert!(page.contains("\n11 more peers, all good"), "{page}");
}
