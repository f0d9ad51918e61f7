use std::{collections::BTreeSet, fs, path::Path};

use hyper::header::HeaderName;

use super::*;

/// Limit of the bytes that a browser loads for the page.
const LIMIT: usize = 150_000;

fn text(asset: Asset) -> &'static str {
    std::str::from_utf8(asset.bytes).expect("text")
}

/// Returns all texts that follow one of the given words, up to the next quotation mark.
fn quoted<'t>(text: &'t str, before: &'t [&str]) -> impl Iterator<Item = &'t str> {
    before.iter().flat_map(move |word| text.split(*word).skip(1).filter_map(|rest| rest.split('"').next()))
}

#[test]
fn all_that_the_page_asks_for_is_there() {
    let index = text(asset("/").expect("the page"));
    for path in quoted(index, &["src=\"", "href=\""]).filter(|path| !path.starts_with('#')) {
        assert!(asset(path).is_some(), "{path}");
    }
    for (path, script) in ASSETS.iter().filter(|(_, asset)| asset.content_type == SCRIPT) {
        if path.contains(".min.") {
            continue;
        }
        for module in quoted(text(*script), &["from \"./"]) {
            assert!(asset(&format!("/page/{module}")).is_some(), "{path} imports {module}");
        }
    }
    assert!(asset("/page/").is_none() && asset("/page/../page.rs").is_none() && asset("").is_none());
}

#[test]
fn every_file_of_the_folder_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/page");
    let files = fs::read_dir(folder).expect("the folder").flatten();
    let files: BTreeSet<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    let served = ASSETS.iter().map(|(path, _)| path.trim_start_matches("/page/"));
    let served = served.map(|name| if name == "/" { "index.html" } else { name });
    let served: BTreeSet<_> = served.chain(["tests.rs"]).map(ToOwned::to_owned).collect();
    assert_eq!(files, served);
}

/// The content security policy forbids scripts and styles inside the text of the page. Without this
/// test, only a browser would reveal a mistake.
#[test]
fn no_script_and_no_style_stands_in_the_text() {
    let index = text(asset("/").expect("the page"));
    assert!(!index.contains("style="), "a style");
    for attribute in index.split(" on").skip(1) {
        let name = attribute.split_once('=').map_or(" ", |(name, _)| name);
        assert!(!name.chars().all(char::is_alphabetic), "a handler: on{name}");
    }
    for script in index.split("<script").skip(1) {
        let (head, rest) = script.split_once('>').expect("a tag");
        assert!(head.contains("src=") && rest.starts_with("</script>"), "{head}");
    }
    let own = ASSETS.iter().filter(|(path, asset)| asset.content_type == SCRIPT && !path.contains(".min."));
    for (path, script) in own {
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text(*script).contains(word), "{path} has {word}");
        }
    }
}

#[test]
fn it_is_small() {
    let all: usize = ASSETS.iter().map(|(_, asset)| asset.bytes.len()).sum();
    assert!(all <= LIMIT, "{all} bytes");
}

#[test]
fn every_file_comes_with_the_policy() {
    for (path, asset) in ASSETS {
        let response = asset.into_response();
        let header = |name: &HeaderName| response.headers()[name].to_str().expect("text");
        assert!(header(&CONTENT_SECURITY_POLICY).starts_with("default-src 'none';"), "{path}");
        assert!(!header(&CONTENT_SECURITY_POLICY).contains("unsafe"), "{path}");
        assert_eq!(header(&X_CONTENT_TYPE_OPTIONS), "nosniff", "{path}");
    }
}
