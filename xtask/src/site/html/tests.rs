use super::*;

const PAGE: &str = r##"<!DOCTYPE html><html><body id="body"><h2 id="two-ports">Two ports</h2>
<p class="a" data-href="no.html">&lt;a href="code.html"&gt; <a name='x' class="b" href="guide.html#top">guide</a></p></body>"##;

/// Returns the lines for a website whose page `docs/a.html` has this link.
fn found(attribute: &str) -> Vec<String> {
    let site = tempfile::tempdir().unwrap();
    fs::create_dir_all(site.path().join("docs/img")).unwrap();
    fs::write(site.path().join("index.html"), PAGE.replace("guide.html#top", "docs/a.html#here")).unwrap();
    fs::write(site.path().join("docs/img/x y.svg"), "").unwrap();
    fs::write(site.path().join("docs/a.html"), format!("<p id=\"here\"><a {attribute}>x</a>")).unwrap();
    broken(site.path()).unwrap()
}

#[test]
fn broken_links_are_found() {
    for link in
        ["no.html", "../no.html", "../index.html#three-ports", "#there", "img/y.svg", "../../out.html"]
    {
        let expected = [format!("docs/a.html: the link `{link}` leads nowhere")];
        assert_eq!(found(&format!("href=\"{link}\"")), expected);
        assert_eq!(found(&format!("class=\"b\" src=\"{link}\"")), expected);
    }
}

#[test]
fn good_links_pass() {
    for link in
        ["../index.html#two-ports", "../index.html", "#here", "", "img/x%20y.svg", "img", "https://a.b/c#d"]
    {
        assert_eq!(found(&format!("href=\"{link}\"")), [""; 0]);
    }
}

#[test]
fn only_attributes_of_tags_are_links() {
    assert_eq!(values(PAGE, &LINKS).collect::<Vec<_>>(), ["guide.html#top"]);
    assert_eq!(values(PAGE, &PLACES).collect::<Vec<_>>(), ["body", "two-ports"]);
}
