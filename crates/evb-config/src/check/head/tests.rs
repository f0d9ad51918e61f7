use evb_core::units::Bytes;

use super::{super::tests::INCAST, head};
use crate::{
    admission::{GrantPaths, admit, planning},
    read,
};

fn lines(text: &str) -> Vec<String> {
    let loaded = read(text, "test.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let (sums, _) = admit(&loaded, Some(Bytes::mib(1024)));
    let planning = planning(&loaded.config, &sums, &GrantPaths::assumed());
    head(&loaded.config, &sums, &planning).lines().map(str::to_owned).collect()
}

#[test]
fn the_rate_its_limit_and_the_memory_come_first() {
    let page = lines(INCAST);
    assert_eq!(page[0], "system     8 sources, 1 builder; events of 8 fragments, 512 kB on average");
    assert!(
        page[1].starts_with("rate       150 events/s expected, limited by the trigger; next limit: "),
        "{page:?}"
    );
    assert!(page[2].starts_with("memory     a builder needs at most 10.3 MB (it may use "), "{page:?}");
    assert_eq!(page.len(), 3, "{page:?}");
}

#[test]
fn a_port_that_its_budget_does_not_fill_is_told_below_the_rate() {
    let page = lines(&INCAST.replace("1 Gbit/s", "10 Gbit/s"));
    assert!(page[2].contains("the budget of bytes under way fills 39.9 % of the link"), "{page:?}");
}

#[test]
fn unknown_links_and_buffers_are_named_as_unchecked() {
    let blind = INCAST.replace("link_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"", "");
    assert!(lines(&blind)[3].starts_with("unchecked  whether links carry the load"), "{:?}", lines(&blind));
    let half = INCAST.replace("\nport_buffer = \"128 KiB\"", "");
    assert!(lines(&half)[3].starts_with("unchecked  whether ports hold the load"), "{:?}", lines(&half));
    let real = INCAST.replace(
        "{ kind = \"generator\", size = \"64 kB\" }",
        "{ kind = \"tcp\", listen = \"10.77.1.{id}:9000\" }",
    );
    assert!(lines(&real)[3].contains("the sizes of the fragments depend on your"), "{:?}", lines(&real));
    let unsized_events =
        blind.replace("{ kind = \"periodic\", rate = \"150 Hz\" }", "\"as-fast-as-possible\"").replace(
            "{ kind = \"generator\", size = \"64 kB\" }",
            "{ kind = \"tcp\", listen = \"10.77.1.{id}:9000\" }",
        );
    assert!(
        lines(&unsized_events)[1].starts_with("rate       not known before the run"),
        "{:?}",
        lines(&unsized_events)
    );
}
