use super::bad;

/// Configurations with one mistake each, the line of the mistake, and words that the message must
/// contain.
const MISTAKES: &[(&str, usize, &[&str])] = &[
    ("[run]\nnumer = 3\n", 2, &["unknown key `numer`", "did you mean `number`?", "run.numer"]),
    (
        "[supervisor]\nlisten = \"127.0.0.1:1\"\ntrigger = { kind = \"gaussian\", rate = \"1 kHz\" }\n",
        3,
        &["evbd makes no `gaussian` triggers any more", "evb-bench trigger --to", "--sigma"],
    ),
    (
        "[supervisor]\nlisten = \"127.0.0.1:1\"\ntrigger = { kind = \"on-off\", rate = \"1 kHz\" }\n",
        3,
        &["evb-bench trigger --to 127.0.0.1:7001 --kind on-off"],
    ),
    (
        "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\ntap = { listen = \"10.0.0.1:7301\" }\n",
        5,
        &["builder.tap.listen", "without a `key_file`, everybody there may read the events", "use 127.0.0.1"],
    ),
    (
        "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n[builder.tap]\nlisten = \"127.0.0.1:7301\"\nsample = 1.5\n",
        7,
        &["not a possible value of `sample`", "at most 1"],
    ),
    (
        "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\ntap = { listen = \"127.0.0.1:0\", clients = 0 }\n",
        5,
        &["from 1 to 1000"],
    ),
    (
        "[[builder]]\nids = \"1-2\"\nlisten = \"127.0.0.1:{7100+id}\"\nsink = \"null\"\ntap = { listen = \"127.0.0.1:7301\" }\n",
        1,
        &["the tap of builder 2 and the tap of builder 1 both listen at 127.0.0.1:7301"],
    ),
    ("[run]\ncolour = 3\n", 2, &["unknown key `colour`", "keys here: number, events"]),
    ("[sources]\n", 1, &["unknown key `sources`", "did you mean `source`?"]),
    ("[run]\nduration = 10\n", 2, &["bare number", "duration = \"2 s\""]),
    ("[run]\nduration = \"10\"\n", 2, &["no unit"]),
    ("[run]\nduration = \"0 s\"\n", 2, &["`duration` is zero"]),
    ("[run]\nevents = 0\n", 2, &["from 1 to"]),
    ("[run]\nevents = \"many\"\n", 2, &["is text, not a whole number"]),
    ("run = 3\n", 1, &["`run` is a whole number, not a table"]),
    ("[network]\nlink_rate = \"1 Gbit\"\n", 2, &["not a unit of data rate", "did you mean `Gbit/s`?"]),
    ("[network]\ntransport = \"udp\"\nmtu = 1000\n", 3, &["too small for datagrams", "1280"]),
    ("[network]\ntransport = \"tpc\"\n", 2, &["did you mean `tcp`?"]),
    ("[network]\nnodelay = \"yes\"\n", 2, &["not true or false"]),
    ("[network]\nsend_buffer = \"4 GiB\"\n", 2, &["more than a socket buffer can have"]),
    (
        "[network]\nreceive_buffer = \"1 kB\"\n",
        2,
        &["no room for a packet of 1500 B", "leave `receive_buffer` out"],
    ),
    ("[network]\nsend_buffer = \"8 kB\"\nmtu = 9000\n", 2, &["no room for a packet of 9 kB"]),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\nclock = { rate = \"1 MHz\", bits = 9, wrap = 9 }\n",
        4,
        &["not both"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\nclock = { rate = \"1 MHz\" }\n",
        4,
        &["after how many ticks", "add bits = 48"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\nclock = { rate = \"1 MHz\", bits = 9, accuracy = \"1 %\" }\n",
        4,
        &["`1 %` is not a deviation", "\"100 ppm\""],
    ),
    (
        "[[source]]\nid = 1\nclock = { rate = \"1 MHz\", bits = 48 }\n\
         input = { kind = \"generator\", size = \"1 kB\", fault = { slip = 17, at = 5 } }\n",
        4,
        &["not a possible value of `slip`", "from -16 to 16, but not 0"],
    ),
    (
        "[[source]]\nid = 1\nclock = { rate = \"1 MHz\", bits = 48 }\n\
         input = { kind = \"generator\", size = \"1 kB\", fault = { slip = 0, at = 5 } }\n",
        4,
        &["not a possible value of `slip`"],
    ),
    (
        "[[source]]\nid = 1\nclock = { rate = \"1 MHz\", bits = 48 }\n\
         input = { kind = \"generator\", size = \"1 kB\", fault = { slip = 99999999999999999999, at = 5 } }\n",
        4,
        &["not a possible value of `slip`"],
    ),
    (
        "[[source]]\nid = 1\nclock = { rate = \"1 MHz\", bits = 48 }\n\
         input = { kind = \"generator\", size = \"1 kB\", fault = { slip = -5, at = 5 } }\n",
        4,
        &["the fragment of event 5 would be that of event 0, which does not exist", "write at = 6"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\", fault = { slip = 1, at = 5 } }\n",
        3,
        &["nothing shows the fault", "add clock = {"],
    ),
    (
        "[[source]]\nid = 1\nclock = { rate = \"1 MHz\", bits = 48 }\n\
         input = { kind = \"generator\", size = \"1 kB\", fault = { at = 5 } }\n",
        4,
        &["`source.input.fault` has no `slip`", "for example slip = 1"],
    ),
    (
        "[[group]]\nname = \"tracker\"\nsources = \"1-3\"\n",
        3,
        &["group `tracker` lists sources", "not in this file: 2-3", "remove them from the group"],
    ),
    (
        "[[group]]\nname = \"tracker\"\nsources = \"1\"\nat_least = 2\n",
        4,
        &[
            "group `tracker` has only 1 source, but needs 2,",
            "could never start",
            "write at_least = 1 or less",
        ],
    ),
    (
        "[[group]]\nname = \"tracker\"\nsources = \"1\"\n[[group]]\nname = \"tracker\"\nsources = \"1\"\n",
        5,
        &["there is a group `tracker` already", "its own name"],
    ),
    ("[[group]]\nsources = \"1\"\n", 1, &["`group` has no `name`"]),
    (
        "[[source]]\nid = 1\nneed = \"expendable\"\nowes = \"none\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[source]]\nid = 2\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        3,
        &["events never wait for a source with owes", "remove `need`, or `owes`"],
    ),
    (
        "[[source]]\nid = 1\nwait = \"5 ms\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        3,
        &["only sources with owes = \"none\"", "add owes = \"none\""],
    ),
    (
        "[[source]]\nid = 1\nowes = \"none\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        1,
        &["every source is expendable or has owes", "let at least one source be essential"],
    ),
    ("[alignment]\non_slip = \"halt\"\n", 2, &["`halt`", "\"report\", \"pause\", \"stop\""]),
    ("[alignment]\nlead = 9\n", 2, &["there is no source 9", "remove `lead`"]),
    ("[alignment]\nlead = 1\n", 2, &["source 1 has no `clock` that could count time", "remove `lead`"]),
    (
        "[alignment]\nlead = 1\n[[source]]\nids = \"1-2\"\n\
         input = { kind = \"generator\", size = \"1 kB\" }\n\
         [[source]]\nid = 4\ninput = { kind = \"generator\", size = \"1 kB\" }\nclock = { rate = \"1 MHz\", bits = 48 }\n",
        2,
        &["source 1 has no `clock`", "one of the sources with a clock: 4"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\ncounter = { bits = 16 }\n",
        4,
        &["a generator makes the fragments", "remove `counter`"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"replay\", path = \"a\", format = \"km3net\" }\ncounter = { bits = 16 }\n",
        4,
        &["a replay gives the fragments", "remove `counter`"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"unix\", path = \"a\" }\ncounter = { bits = 8, first = 256 }\n",
        4,
        &["must fit into the counter's bits", "give first = 0 to 255, or more bits"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"unix\", path = \"a\" }\ncounter = { bits = 8, step = 2 }\n",
        4,
        &["wraps after at least 256 triggers", "give step = 1, or more bits"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"unix\", path = \"a\" }\ncounter = { bits = 8, first = \"zero\" }\n",
        4,
        &["`zero` is neither a number nor", "without quotes"],
    ),
    ("[shaping]\nmode = \"credits\"\n", 2, &["did you mean `credit`?", "\"token-bucket\""]),
    ("[shaping]\nmode = \"token-bucket\"\n", 1, &["needs a rate"]),
    (
        "[shaping]\nbudget = \"1 kB\"\nchunk = \"1 kB\"\n",
        3,
        &["one permission to send (chunk = 1 kB) takes 1082 B"],
    ),
    ("[shaping]\nmode = \"none\"\nsources_at_once = 1\n", 3, &["is used only with mode = \"credit\""]),
    ("[shaping]\noffload = \"txtime\"\n", 2, &["states for each UDP packet the time", "\"pacing-rate\""]),
    (
        "[network]\ntransport = \"udp\"\n[shaping]\noffload = \"etf\"\n",
        4,
        &["drops packets that state no time", "\"txtime\""],
    ),
    ("[shaping]\noffload = \"hardware\"\n", 2, &["\"software\""]),
    ("[shaping]\nspin = \"on\"\n", 2, &["\"force\""]),
    ("[shaping]\nbusy_poll = \"200 us\"\n", 2, &["\"force\""]),
    ("[shaping]\nrate = \"1 Mbit/s\"\nrate_counts = \"bits\"\n", 3, &["\"buffer\""]),
    ("[shaping.classes]\ndata = { guaranteed = \"1 Mbit/s\" }\n", 1, &["link_rate"]),
    (
        "[network]\nlink_rate = \"10 Mbit/s\"\n[shaping.classes]\ndata = { guaranteed = \"9600 kbit/s\" }\n",
        3,
        &["guaranteed 10.4 Mbit/s in all"],
    ),
    (
        "[network]\nlink_rate = \"10 Mbit/s\"\n[shaping.classes]\ndata = { guaranteed = \"5 Mbit/s\", ceiling = \"4 Mbit/s\" }\n",
        3,
        &["above its ceiling of 4 Mbit/s"],
    ),
    (
        "[network]\nport_buffer = \"128 KiB\"\n[[network.shared]]\nname = \"asic\"\nbuffer = \"1 MiB\"\nmembers = [\"port7\"]\n",
        6,
        &["`port7`", "write one of the ports or shared buffers here: 127.0.0.1"],
    ),
    ("[[network.shared]]\nname = \"a\"\nbuffer = \"1 MiB\"\n", 1, &["members"]),
    ("[security]\nmode = \"psk\"\n", 1, &["no `key_file`", "evbd keygen"]),
    ("[security]\nmode = \"none\"\nkey_file = \"k\"\n", 3, &["has no key", "psk"]),
    ("[security]\n", 1, &["no `mode`"]),
    ("[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = 3\n", 3, &["`journal`", "not text"]),
    (
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal_fsync = \"commit\"\n",
        3,
        &["no journal is configured", "name its file with `journal`"],
    ),
    (
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = \"j\"\njournal_fsync = \"always\"\n",
        4,
        &["`always`", "commit"],
    ),
    ("[supervisor]\nlisten = \"127.0.0.1:7000\"\nlease = \"100 ms\"\n", 3, &["between two heartbeats"]),
    ("[supervisor]\nlisten = \"127.0.0.1:7000\"\non_source_loss = \"hold\"\n", 3, &["`hold`", "incomplete"]),
    ("[supervisor]\nlisten = \"127.0.0.1:7000\"\npatience = 90\n", 3, &["`patience`"]),
    ("[supervisor]\nlisten = \"10.0.0.1:7000\"\n", 2, &["not a loopback address", "[security]"]),
    ("[supervisor]\nlisten = \"127.0.0.1\"\n", 2, &["no port"]),
    ("[supervisor]\nlisten = \"127.0.0.1:0\"\n", 2, &["port 0"]),
    (
        "[supervisor]\nlisten = \"[::1]:7000\"\ntrigger = { kind = \"multicast\", group = \"239.1.2.3:1\" }\n",
        3,
        &["reaches beyond this machine", "interface = \"127.0.0.1\""],
    ),
    ("[[source]]\nid = 1\ninput = \"generator\"\n", 3, &["is text, not a table"]),
    ("[[source]]\nid = 1\nids = \"1-2\"\n", 3, &["both `id` and `ids`"]),
    (
        "[[source]]\nid = 1\n[source.input]\nkind = \"generator\"\nsize = \"1 kB\"\non = \"multicast\"\n",
        3,
        &["`source.input` has no `trigger_group`", "add trigger_group = \"239.1.2.3:7002\""],
    ),
    (
        "[supervisor]\nlisten = \"127.0.0.1:1\"\n\
         trigger = { kind = \"multicast\", group = \"239.1.2.3:7\", interface = \"127.0.0.1\" }\n[[source]]\nid = 1\n\
         input = { kind = \"generator\", size = \"1 kB\", on = \"multicast\", interface = \"10.0.0.1\" }\n",
        6,
        &["`10.0.0.1` is not a loopback address", "source.input.interface"],
    ),
    (
        "[[source]]\nid = 0\n[source.input]\nkind = \"replay\"\npath = \"a\"\nformat = \"km3net\"\n",
        3,
        &["source 0 needs a `module`", "source.input.module"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\", trigger_group = \"239.1.2.3:7\" }\n",
        3,
        &["`trigger_group` is used only with on = \"multicast\"", "remove `trigger_group`"],
    ),
    (
        "[[builder]]\nid = 1\nprecedence = -10\nlisten = \"127.0.0.1:7000\"\nsink = \"null\"\n",
        3,
        &["not true or false"],
    ),
    ("[[builder]]\nid = 1\nlisten = \"127.0.0.1:{ip}\"\nsink = \"null\"\n", 3, &["`{ip}` is not a sum"]),
    (
        "[[builder]]\nid = 1\nlisten = \"127.0.0.1:7000\"\nsink = \"null\"\n",
        1,
        &["builder 1 and supervisor both listen at"],
    ),
    (
        "[[source]]\nid = 1\ninput = { kind = \"unix\", path = \"/run/evb/a-directory-with-a-name-that-says-what-it-is-for/\
         and-one-below-it-that-does-the-same/front-end.sock\" }\n",
        3,
        &["at most 107 bytes"],
    ),
    (
        "[[source]]\nid = 1\nbind = \"127.0.0.1\"\nhost = \"localhost\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        4,
        &["the host of 127.0.0.1", "remove `host`", "source.host"],
    ),
    (
        "[security]\nmode = \"none\"\n[[source]]\nid = 1\nhost = \"0.0.0.0\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        5,
        &["every host", "of the host that runs"],
    ),
    (
        "[[source]]\nid = 1\nhost = \"daq1:7000\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        3,
        &["neither a host name nor an address", "without a port"],
    ),
    (
        "[[source]]\nid = 1\nbind = \"daq1\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        3,
        &["`daq1` is not an IP address", "to send from"],
    ),
    ("[[source]]\nid = 1\nname = 7\n", 3, &["is a whole number, not text", "TPC crate 1"]),
    ("[[source]]\nid = 1\nname = \" \"\n", 3, &["the name is empty", "remove the key", "source.name"]),
    ("[[source]]\nid = 1\nname = \"two\\nlines\"\n", 3, &["control character", "on one line"]),
    (
        "[[builder]]\nid = 1\nname = \"a name of a builder that is, with its explanation, longer than 64 bytes\"\n",
        3,
        &["the name has 71 bytes", "at most 64 bytes", "builder.name"],
    ),
    (
        "[[source]]\nid = 1\nname = \"veto\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
         [[source]]\nid = 2\nname = \"veto\"\ninput = { kind = \"generator\", size = \"1 kB\" }\n",
        7,
        &["source 1 and source 2 both have the name `veto`", "crate {id}"],
    ),
    ("[control]\nlisten = \"127.0.0.1:7000\"\n", 1, &["run control and supervisor both listen at"]),
];

#[test]
fn every_mistake_is_named_with_its_line() {
    for (text, line, says) in MISTAKES {
        let problems = bad(text);
        let shown = problems.to_string();
        assert!(
            problems.iter().any(|problem| problems.line_of(problem) == *line),
            "{text}\nnot on line {line}:\n{shown}"
        );
        assert!(shown.contains(&format!("--> test.toml:{line}:")), "{shown}");
        for word in *says {
            assert!(shown.contains(word), "{text}\ndoes not say {word:?}:\n{shown}");
        }
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let problems = bad(
        "[run]\nevents = 0\nnumer = 1\n[network]\nmtu = 1\n[shaping]\nmode = \"x\"\n[[builder]]\nid = 1\n",
    );
    let lines: Vec<usize> = problems.iter().map(|problem| problems.line_of(problem)).collect();
    assert_eq!(lines, [2, 3, 5, 7, 8, 8]);
}

#[test]
fn one_mistake_in_many_entries_is_one_message() {
    let problems = bad("[[source]]\nids = \"1-20\"\ninput = { kind = \"generator\", size = 1 }\n");
    assert_eq!(problems.iter().count(), 1, "{problems}");
}

#[test]
fn a_name_for_many_ids_needs_the_id() {
    let input = "input = { kind = \"generator\", size = \"1 kB\" }\n";
    let problems = bad(&format!("[[source]]\nids = \"1-4\"\nname = \"crate\"\n{input}"));
    assert_eq!(problems.iter().map(|problem| problems.line_of(problem)).collect::<Vec<_>>(), [3]);
    assert!(problems.to_string().contains("source 1 and source 2 both have the name `crate`"), "{problems}");
}

#[test]
fn an_id_may_stand_only_once() {
    let source = "input = { kind = \"generator\", size = \"1 kB\" }\n";
    let problems = bad(&format!("[[source]]\nids = \"1-4\"\n{source}[[source]]\nid = 3\n{source}"));
    assert!(problems.to_string().contains("there is a source 3 already"), "{problems}");
    assert_eq!(problems.iter().map(|problem| problems.line_of(problem)).collect::<Vec<_>>(), [5]);
}

#[test]
fn too_many_entries_are_refused() {
    let source = "input = { kind = \"generator\", size = \"1 kB\" }\n";
    assert!(
        bad(&format!("[[source]]\nids = \"0-65535\"\n{source}"))
            .to_string()
            .contains("more than 4096 sources")
    );
}

#[test]
fn syntax_errors_stand_alone() {
    let problems = super::super::read("[run\nevents = 5\n", "broken.toml").expect_err("no TOML");
    let shown = problems.to_string();
    assert!(shown.contains("not TOML") && shown.contains("broken.toml:1:"), "{shown}");
    assert!(!shown.contains("supervisor"), "{shown}");
}

#[test]
fn a_file_that_is_no_text_is_refused_with_its_line() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), b"[run]\nevents\xff = 2\n").expect("written");
    let error = super::super::load(file.path()).expect_err("not UTF-8").to_string();
    assert!(error.contains("not UTF-8") && error.contains(":2:7"), "{error}");
    let error = super::super::load(std::path::Path::new("/nowhere/at.all")).expect_err("no file").to_string();
    assert!(error.contains("/nowhere/at.all"), "{error}");
}
