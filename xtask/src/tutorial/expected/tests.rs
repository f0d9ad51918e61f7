use super::*;

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

const OUTPUT: &str = "run 7 (id 5c0e81f7): 100 of 100 assigned events complete\n  rate  30 events/s, 1.5 Gbit/s payload, over 17 ms\n\n  other\nclean\n";

#[test]
fn figures_and_units_may_differ() {
    let page = lines(
        "run 1 (id 9d27a04b): 9 of 9 assigned events complete\n rate 2 events/s, 9 kbit/s payload, over 3 s",
    );
    assert_eq!(missing(&page, OUTPUT), None);
}

#[test]
fn an_ellipsis_stands_for_anything() {
    assert_eq!(missing(&lines("run 1 …\n…\nclean"), OUTPUT), None);
}

#[test]
fn words_and_their_order_must_be_those_of_the_page() {
    for page in [
        "dirty",
        "clean\nrun 1 (id 9d27a04b): 9 of 9 assigned events complete",
        "run 1 (id 9d27a04b): 9 of 9 assigned events",
        "run one (id 9d27a04b): 9 of 9 assigned events complete",
        "rate 2 events/s, 9 kbit/s payload, over 3 events",
    ] {
        assert!(missing(&lines(page), OUTPUT).is_some(), "{page}");
    }
}
