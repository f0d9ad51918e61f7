use super::*;

fn plan() -> RunPlan {
    let (sources, builders) = ([3, 5].map(SourceId::new).to_vec(), vec![BuilderId::new(1)]);
    RunPlan::new(RunNumber::new(7), Epoch::new(1), sources, builders)
}

#[test]
fn impossible_names_are_refused() {
    let check_source = |id, name: &str| {
        let source_names = [(SourceId::new(id), name.to_owned())].into();
        RunPlan { source_names, ..plan() }.check()
    };
    assert_eq!(check_source(3, "TPC crate 1"), Ok(()));
    assert_eq!(check_source(3, &"é".repeat(MAX_NAME / 2)), Ok(()), "as long as possible");
    let refused = Err(PlanError::Name { role: "source", id: 3 });
    for name in ["", "two\nlines", "\u{1b}[31m", &"é".repeat(MAX_NAME / 2 + 1)] {
        assert_eq!(check_source(3, name), refused, "{name:?}");
    }
    assert_eq!(check_source(4, "veto"), Err(PlanError::Name { role: "source", id: 4 }), "not in the run");
    let check_builder = |name: &str| {
        let builder_names = [(BuilderId::new(2), name.to_owned())].into();
        RunPlan { builder_names, ..plan() }.check()
    };
    assert_eq!(check_builder("left rack"), Ok(()), "a builder may join later");
    assert_eq!(check_builder(""), Err(PlanError::Name { role: "builder", id: 2 }));
}
