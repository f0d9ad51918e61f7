use evb_config::Config;

use super::*;

/// Returns the packets that the input of a source takes.
fn filter(input: &str) -> (String, String) {
    let text = format!(
        "[security]\nmode = \"none\"\n[supervisor]\nlisten = \"127.0.0.1:7000\"\ntrigger = {{ kind = \"periodic\", rate = \"1 kHz\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = \"null\"\n[[source]]\nid = 1\n\
         input = {{ {input}, frame = {{ header = 8, payload = \"1 kB\", counter = {{ at = 0, bytes = 8 }} }} }}\n"
    );
    let config: Config =
        evb_config::read(&text, "test.toml").map_err(|error| error.to_string()).unwrap().config;
    let (FlowFilter { from, to }, _) = taken(&config.sources[0].input);
    (from.to_string(), to.to_string())
}

#[test]
fn a_capture_is_decoded_as_the_input_would_take_it() {
    for (input, from, to) in [
        ("kind = \"tcp\", connect = \"192.168.10.16:24\"", "192.168.10.16:24", "any"),
        ("kind = \"tcp\", connect = \"board:24\"", "port 24", "any"),
        ("kind = \"tcp\", listen = \"0.0.0.0:7204\"", "any", "port 7204"),
        ("kind = \"stream\", path = \"/dev/board\"", "any", "any"),
        ("kind = \"udp\", listen = \"0.0.0.0:4660\", from = \"10.0.0.1\"", "10.0.0.1", "port 4660"),
        ("kind = \"pcap\", path = \"a\", from = \"24\", to = \"10.0.0.2:5000\"", "port 24", "10.0.0.2:5000"),
    ] {
        assert_eq!(filter(input), (from.to_owned(), to.to_owned()), "{input}");
    }
}
