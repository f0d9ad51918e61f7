use std::fs;

use evb_core::id::{BuilderId, Peer, SourceId};

use super::missing;
use crate::config::read;

#[test]
fn only_what_is_hosted_is_looked_for_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    let text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:7000\"\njournal = \"{here}/journal\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nids = \"1-2\"\ninput = {{ kind = \"replay\", format = \"evb\", path = \"{here}/absent\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:7101\"\nsink = {{ kind = \"file\", path = \"{here}/deep/out\" }}\n"
    );
    let loaded = read(&text, "system.toml").unwrap();
    let missing = |hosted: &[Peer]| missing(&loaded.config, &loaded.origin, hosted);
    assert!(missing(&[Peer::Supervisor, Peer::Builder(BuilderId::new(1))]).is_empty());
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    fs::write(directory.path().join("journal"), "what was").unwrap();
    assert!(missing(&[Peer::Supervisor]).is_empty());
    assert_eq!(fs::read_to_string(directory.path().join("journal")).unwrap(), "what was");
    let sources = missing(&[Peer::Source(SourceId::new(1)), Peer::Source(SourceId::new(2))]);
    assert_eq!(sources.iter().count(), 1, "one line, said once: {sources}");
    assert!(sources.iter().all(|problem| sources.line_of(problem) == 7), "{sources}");
}
