use super::*;

fn command(host: Option<&str>, line: &str) -> Command {
    Command { host: host.map(str::to_owned), line: line.to_owned() }
}

fn actions(page: &str) -> Vec<Action> {
    parse(page).expect("a page").into_iter().map(|step| step.action).collect()
}

#[test]
fn every_kind_of_block_is_a_step() {
    let page = "# Title\n\n```sh\ncd a\ndaq2$ ls\n```\ntext\n```sh exits 1\nfalse\n```\n\
        ```sh background\nsleep 9\n```\n<!-- tutorial: kill 1 -->\n```text\nan answer\n```\n\
        ```toml output\n[run]\n```\n```toml own.toml\n[run]\na = 1\n```\n```toml append own.toml\nb = 2\n```\n";
    let run = |commands, code| Action::Run { commands, code };
    assert_eq!(
        actions(page),
        [
            run(vec![command(None, "cd a"), command(Some("daq2"), "ls")], 0),
            run(vec![command(None, "false")], 1),
            Action::Background(command(None, "sleep 9")),
            run(vec![command(None, "kill 1")], 0),
            Action::Expect(vec!["an answer".to_owned()]),
            Action::Expect(vec!["[run]".to_owned()]),
            Action::Write { file: "own.toml".to_owned(), text: "[run]\na = 1\n".to_owned() },
            Action::Append { file: "own.toml".to_owned(), text: "b = 2\n".to_owned() },
        ]
    );
}

#[test]
fn a_shell_variable_is_not_a_prompt() {
    assert_eq!(
        actions("```sh\nSTART=$(($(date +%s) + 1))\necho \"$a$ b\"\n```\n"),
        [Action::Run {
            commands: vec![command(None, "START=$(($(date +%s) + 1))"), command(None, "echo \"$a$ b\"")],
            code: 0
        }]
    );
}

#[test]
fn a_block_that_says_nothing_is_refused_with_its_line() {
    for (page, line) in [
        ("a\n```toml\nx = 1\n```\n", "line 2"),
        ("```\nx\n```\n", "line 1"),
        ("```sh\nls\n", "line 1"),
        ("```sh background\na\nb\n```\n", "line 1"),
        ("<!-- tutorial: ls\n", "line 1"),
    ] {
        let error = parse(page).expect_err("not a step").to_string();
        assert!(error.contains(line), "{error}");
    }
}
