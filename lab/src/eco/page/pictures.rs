//! Screenshots of the control page, for the documentation and for reviewing changes of the page.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use lab_base::report::Report;

use super::{browser::Browser, house};

/// Name, width, height, pixel ratio and theme of each emulated screen.
const SCREENS: [(&str, u32, u32, f64, &str); 3] = [
    ("light", 1280, 1180, 1.0, "light"),
    ("dark", 1280, 1180, 1.0, "dark"),
    ("phone", 360, 780, 1.5, "light"),
];
/// Time after a change of the screen until charts have the new width and new figures have arrived.
const SETTLES: Duration = Duration::from_millis(1500);

/// Folder in which the screenshots are saved.
pub(super) struct Album {
    pub(super) folder: PathBuf,
}

impl Album {
    /// Takes a screenshot on each emulated screen, and then restores the first screen.
    pub(super) async fn take(&self, browser: &Browser, what: &str, report: &mut Report) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        for (screen, width, height, scale, scheme) in SCREENS {
            browser.become_screen(width, height, scale, scheme).await?;
            browser.script("document.activeElement.blur(); scrollTo(0, 0)").await?;
            tokio::time::sleep(SETTLES).await;
            house::looks(browser, &format!("{what}, {screen}"), report).await?;
            let path = self.folder.join(format!("page-{what}-{screen}.png"));
            fs::write(&path, browser.picture().await?).with_context(|| path.display().to_string())?;
            // The optional program pngquant reduces a PNG file to a third of its size without a
            // visible difference.
            let _ = Command::new("pngquant").args(["--force", "--ext", ".png"]).arg(&path).status();
        }
        let (_, width, height, scale, scheme) = SCREENS[0];
        browser.become_screen(width, height, scale, scheme).await
    }
}
