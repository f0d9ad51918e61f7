use crate::{Config, read};

fn config(trigger: &str, network: &str, sources: &str, input: &str, memory: &str) -> Config {
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"{trigger}\" }}\n[network]\n{network}\n\
         [[source]]\nids = \"{sources}\"\ninput = {{ {input} }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n{memory}\n"
    );
    read(&text, "test.toml").unwrap_or_else(|problems| panic!("refused:\n{problems}")).config
}

const FAST: &str = "as-fast-as-possible";
const POISSON: &str = "poisson\", rate = \"10 Hz";

fn generator(size: &str) -> String {
    format!("kind = \"generator\", size = \"{size}\"")
}

#[test]
fn small_events_get_many_and_large_ones_few() {
    let slots = |trigger, size| config(trigger, "", "1-4", &generator(size), "").slots();
    assert_eq!(slots(FAST, "1 kB"), 256);
    assert_eq!(slots(FAST, "64 kB"), 34, "8 MiB hold 32 events of 265 kB, and two more slots are added");
    assert_eq!(slots(FAST, "1 MB"), 5);
    assert_eq!(slots(FAST, "16 MB"), 4);
    assert_eq!(slots(POISSON, "16 MB"), 16);
}

#[test]
fn triggers_of_a_rate_get_what_is_under_way_at_it() {
    let slots =
        |rate| config(&format!("periodic\", rate = \"{rate}"), "", "1-4", &generator("1 kB"), "").slots();
    assert_eq!((slots("500 Hz"), slots("2 kHz"), slots("100 kHz")), (27, 102, 256));
    assert_eq!(slots("200 Hz"), 16);
}

#[test]
fn a_port_that_is_kept_full_is_hidden_behind_many() {
    let port = "link_rate = \"25 Mbit/s\"\nport_buffer = \"160 KiB\"\nadmission = \"warn\"";
    let slots = config(FAST, port, "1-22", &generator("1455 B"), "").slots();
    // The slots hold eight budgets of 147 kB. Each event takes 35 to 39 kB of the port, because
    // each of its 22 fragments, with a header of 16 B, takes two packets.
    assert!((30..=36).contains(&slots), "{slots}");
    let fast = "link_rate = \"1 Gbit/s\"\nport_buffer = \"128 KiB\"\nadmission = \"warn\"";
    let slots = config(FAST, fast, "1-32", &generator("1455 B"), "").slots();
    // The slots hold what 125 MB/s carry in 50 ms.
    assert!((110..=140).contains(&slots), "{slots}");
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let input = "kind = \"tcp\", listen = \"127.0.0.1:{7200+id}\"";
    assert_eq!(config(FAST, "", "1-4", input, "").slots(), 16);
}

#[test]
fn what_is_given_counts_and_stated_memory_bounds() {
    let text = "[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = \"as-fast-as-possible\"\nslots = 3\n\
                [[source]]\nid = 1\ninput = { kind = \"generator\", size = \"1 kB\" }\n\
                [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n";
    assert_eq!(read(text, "test.toml").map(|loaded| loaded.config.slots()).ok(), Some(3));
    assert_eq!(config(FAST, "", "1-4", &generator("1 kB"), "memory = \"100 kB\"").slots(), 25);
}
