use super::{has, is_at_least, is_listed, is_loaded, release};

#[test]
fn names_are_whole_words() {
    let list = "sch_fq 9516 0 - Live 0x0\nveth 18706 0 - Live 0x0\n";
    assert!(is_loaded(list, "sch_fq") && is_loaded(list, "veth"));
    assert!(!is_loaded(list, "sch_fq_codel") && !is_loaded(list, "sch"));
    let list = "kernel/net/sched/sch_fq.ko.zst: kernel/lib/a.ko\nkernel/net/sched/sch_etf.ko:\n";
    assert!(is_listed(list, "sch_fq") && is_listed(list, "sch_etf"));
    assert!(!is_listed(list, "a") && !is_listed(list, "sch_f") && !is_listed(list, "sch_fq_pie"));
}

#[test]
fn releases_are_compared_by_their_first_two_numbers() {
    for release in ["6.12.0", "6.18.44-rc1", "7.0.1", "10.1", "6.12"] {
        assert!(is_at_least(release, (6, 12)), "{release}");
    }
    for release in ["6.11.99", "6.1.176-um", "5.15.0", "6", "", "next-6.18"] {
        assert!(!is_at_least(release, (6, 12)), "{release}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_running_kernel_is_asked() {
    assert!(!release().unwrap().is_empty());
    // A kernel that lists its parts at all denies one that does not exist.
    assert_ne!(has("sch_nosuchthing", "CONFIG_NET_SCH_NOSUCHTHING"), Ok(true));
}
