//! lab
#[derive(clap::Args)]
pub(crate) struct LabArgs {}
pub(crate) fn run(_: &LabArgs) -> anyhow::Result<bool> {
    Ok(true)
}
