use super::{has, is_configured, is_listed, is_loaded};

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
fn a_module_in_a_list_that_was_not_read_is_unknown() {
    let has = |configuration, lists_are_read| is_configured(configuration, "CONFIG_A", lists_are_read);
    assert_eq!(has(Some("CONFIG_A=y"), false), Some(true));
    assert_eq!(has(Some("CONFIG_A=m\nCONFIG_B=y"), false), None);
    assert_eq!(has(Some("CONFIG_A=m"), true), Some(false), "the module is not installed");
    assert_eq!(has(Some("# CONFIG_A is not set"), false), Some(false));
    assert_eq!((has(None, false), has(None, true)), (None, Some(false)));
}

#[test]
#[cfg(target_os = "linux")]
fn the_running_kernel_is_asked() {
    // A kernel whose features can be listed does not have a module with a made-up name.
    assert_ne!(has("sch_nosuchthing", "CONFIG_NET_SCH_NOSUCHTHING"), Ok(true));
}
