use super::*;

fn messages(path: &str, text: &str) -> Vec<String> {
    check(&Repo::of(&[(path, text)])).iter().map(ToString::to_string).collect()
}

#[test]
fn a_number_without_a_source_is_found_with_its_line() {
    for what in ["It reaches 9.3 Gbit/s.", "| a | 15 % |", "It takes **20 µs**.", "(4 ms)"] {
        let found = messages("docs/how-to/a.md", &format!("# A\n\n{what}\n"));
        assert!(
            found.len() == 1 && found[0].contains("docs/how-to/a.md:3") && found[0].contains("no source"),
            "{what}"
        );
    }
    assert_eq!(messages("README.md", "# evb\n![fast](fast.svg)\n").len(), 1, "a picture");
}

#[test]
fn a_source_in_the_same_section_is_enough() {
    for source in ["Measured in the lab.", "The simulator says so.", "```sh\ncargo xtask lab fill\n```"] {
        assert_eq!(
            messages("docs/a.md", &format!("# A\nIt reaches 9 Gbit/s.\n\n{source}\n")),
            [""; 0],
            "{source}"
        );
    }
    let apart = "# A\nIt reaches 9 Gbit/s.\n## B\nMeasured in the lab.\n";
    assert_eq!(messages("docs/a.md", apart).len(), 1, "another section's source");
}

#[test]
fn code_and_definitions_need_none() {
    assert_eq!(messages("docs/a.md", "# A\nWrite `rate = 2 ms`.\n```\nrate 9 Gbit/s\n```\n"), [""; 0]);
    assert_eq!(messages("docs/reference/protocol.md", "# A\nEvery 250 ms.\n"), [""; 0]);
    assert_eq!(messages("CONTRIBUTING.md", "# A\nWithin 20 minutes.\n"), [""; 0]);
}
