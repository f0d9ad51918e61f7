//! Pictures for the documentation, and for whoever wants to see what a change of the page looks like.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use super::{browser::Browser, house};
use crate::lab::report::Report;

/// Name, width, height, pixels for each of them, and colours.
const SCREENS: [(&str, u32, u32, f64, &str); 3] = [
    ("light", 1280, 1180, 1.0, "light"),
    ("dark", 1280, 1180, 1.0, "dark"),
    ("phone", 360, 780, 1.5, "light"),
];
/// Charts take the new width, and the next figures come.
const SETTLES: Duration = Duration::from_millis(1500);

/// Where pictures go.
pub(super) struct Album {
    pub(super) folder: PathBuf,
}

impl Album {
    /// One of each screen; the last one is the first again.
    pub(super) async fn take(&self, browser: &Browser, what: &str, report: &mut Report) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        for (screen, width, height, scale, scheme) in SCREENS {
            browser.become_screen(width, height, scale, scheme).await?;
            browser.script("document.activeElement.blur(); scrollTo(0, 0)").await?;
            tokio::time::sleep(SETTLES).await;
            house::looks(browser, &format!("{what}, {screen}"), report).await?;
            let path = self.folder.join(format!("page-{what}-{screen}.png"));
            fs::write(&path, browser.picture().await?).with_context(|| path.display().to_string())?;
            // Where it is installed, a third of the size; nobody sees the difference.
            let _ = Command::new("pngquant").args(["--force", "--ext", ".png"]).arg(&path).status();
        }
        let (_, width, height, scale, scheme) = SCREENS[0];
        browser.become_screen(width, height, scale, scheme).await
    }
}
