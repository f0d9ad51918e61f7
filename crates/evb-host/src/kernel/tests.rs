use super::{has, is_listed, is_loaded};

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
#[cfg(target_os = "linux")]
fn the_running_kernel_is_asked() {
    // A kernel whose features can be listed does not have a module with a made-up name.
    assert_ne!(has("sch_nosuchthing", "CONFIG_NET_SCH_NOSUCHTHING"), Ok(true));
}
