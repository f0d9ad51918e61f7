//! Texts that messages tell users to write: examples for the keys that have no form of their own or
//! are required, and the replacements of words that older versions knew.

use super::forms::wrong;

/// Keys, and what to write there.
const EXAMPLES: &[(&str, &str)] = &[
    ("supervisor", "[supervisor] with listen = \"127.0.0.1:7000\" and a trigger"),
    ("supervisor.listen", "for example listen = \"127.0.0.1:7000\""),
    ("supervisor.trigger", "for example trigger = { kind = \"periodic\", rate = \"2 kHz\" }"),
    ("supervisor.trigger.kind", "for example kind = \"periodic\""),
    ("supervisor.trigger.rate", "for example rate = \"2 kHz\""),
    ("supervisor.trigger.listen", "for example listen = \"127.0.0.1:7001\""),
    ("supervisor.trigger.group", "for example group = \"239.1.2.3:7002\""),
    ("supervisor.journal", "for example journal = \"run.journal\""),
    ("supervisor.state", "for example state = \"evb-state\""),
    ("control.token_file", "token_file = \"/etc/evb/control.token\""),
    ("control.viewers", "viewers = \"anyone\""),
    ("control.names", "names = [\"daq0\"]"),
    ("hooks.run_starts", "run_starts = [\"/opt/daq/run_starts\"]"),
    ("hooks.run_ends", "run_ends = [\"/opt/daq/run_ends\"]"),
    ("hooks.file_closed", "file_closed = [\"/opt/daq/file_closed\"]"),
    ("hooks.problem", "problem = [\"/opt/daq/problem\"]"),
    ("network.trunk.name", "name = \"core\""),
    ("network.trunk.members", "members = [\"10.0.0.1\", \"10.0.0.2\"]"),
    ("network.shared.name", "name = \"core\""),
    ("network.shared.buffer", "buffer = \"1 MiB\""),
    ("network.shared.members", "members = [\"10.0.0.1\", \"10.0.0.2\"]"),
    (
        "security.mode",
        "mode = \"psk\" with a key_file (`evbd keygen FILE` makes one), or mode = \"none\" if nothing else is on this network",
    ),
    ("security.key_file", "key_file = \"/etc/evb/key\"; `evbd keygen FILE` makes one"),
    ("source", "at least one [[source]] section"),
    ("source.input", "for example input = { kind = \"generator\", size = \"1 kB\" }"),
    ("source.input.kind", "for example kind = \"generator\""),
    ("source.input.size", "for example size = \"1 kB\", or size = { mean = \"1 kB\", sigma = \"200 B\" }"),
    ("source.input.size.mean", "for example mean = \"1 kB\""),
    ("source.input.size.sigma", "for example sigma = \"200 B\""),
    ("source.input.path", "path = \"PATH\""),
    ("source.input.paths", "paths = [\"run1.pcap\", \"run2.pcap\"]"),
    ("source.input.format", "format = \"evb\" or format = \"km3net\""),
    ("source.input.listen", "for example listen = \"127.0.0.1:7201\""),
    (
        "source.input.frame",
        "for example frame = { magic = \"eb90\", header = 12, length = { at = 2, bytes = 2, counts = \"payload\" } }",
    ),
    ("source.input.frame.header", "the number of bytes before the payload, for example header = 12"),
    ("source.input.frame.length.at", "for example at = 2"),
    ("source.input.frame.length.counts", "counts = \"payload\", counts = \"frame\" or counts = \"rest\""),
    ("source.input.frame.counter.at", "for example at = 4"),
    ("source.input.frame.clock.at", "for example at = 8"),
    ("source.input.frame.magic.at", "for example at = 0"),
    ("source.input.frame.magic.value", "for example value = \"eb90\""),
    ("source.input.packets.number.at", "for example at = 4"),
    ("source.input.packets.count.at", "for example at = 6"),
    ("source.input.packets.last.at", "for example at = 6"),
    ("source.input.packets.offset.at", "for example at = 8"),
    ("source.input.packets.total.at", "for example at = 4"),
    ("source.input.on_start.run", "run = [\"/opt/daq/arm\"]"),
    ("source.input.on_stop.run", "run = [\"/opt/daq/disarm\"]"),
    ("source.input.fault.slip", "for example slip = 1"),
    ("source.input.fault.at", "for example at = 5000"),
    ("source.clock.rate", "for example rate = \"125 MHz\""),
    ("source.counter.bits", "for example bits = 16"),
    ("group.name", "for example name = \"tracker\""),
    ("group.sources", "for example sources = \"1-4\""),
    (
        "source.input.trigger_group",
        "trigger_group = \"239.1.2.3:7002\", or make the supervisor's trigger of kind \"multicast\"",
    ),
    ("builder", "at least one [[builder]] section"),
    ("builder.listen", "for example listen = \"127.0.0.1:7101\""),
    ("builder.sink", "for example sink = { kind = \"file\", path = \"out\" }, or sink = \"null\""),
    ("builder.sink.kind", "kind = \"file\", kind = \"socket\" or kind = \"null\""),
    ("builder.sink.path", "path = \"DIRECTORY\""),
    ("builder.sink.address", "for example address = \"127.0.0.1:7401\""),
    ("builder.filter.kind", "for example kind = \"require-complete\""),
    ("builder.filter.command", "command = [\"python3\", \"/opt/daq/l1.py\"]"),
    ("builder.filter.keep_every", "for example keep_every = 10"),
    ("builder.tap.listen", "for example listen = \"127.0.0.1:7301\""),
    ("builder.tap.key_file", "key_file = \"/etc/evb/tap.key\""),
    ("builder.port", "the name of a switch port"),
];

/// Returns what to write at a key, if there is an example.
pub(super) fn example(path: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(key, _)| *key == path).map(|(_, example)| *example)
}

/// Returns what to write in place of a value that is not a table.
pub(super) fn table(path: &str, key: &str) -> String {
    match example(path) {
        Some(example) => format!("write {example}"),
        None => format!("write {key} = {{ … }} with its keys, or a section [{path}]"),
    }
}

/// Returns reason and remedy for a word that an older version knew at this key.
pub(super) fn replaced(path: &str, word: &str) -> Option<String> {
    let option = match (path, word) {
        ("supervisor.trigger.kind", "gaussian") => " --sigma …",
        ("supervisor.trigger.kind", "burst") => " --burst …",
        ("supervisor.trigger.kind", "on-off") => "",
        _ => return None,
    };
    let reason =
        format!("evbd makes no `{word}` triggers any more, but the program `evb-bench trigger` does");
    let remedy = format!(
        "write {{ kind = \"external\", listen = \"127.0.0.1:7001\", protocol = \"udp\" }}, and when the run has \
         begun, start `evb-bench trigger --to 127.0.0.1:7001 --kind {word} --rate …{option}`"
    );
    Some(wrong(reason, remedy))
}
