//! `[[source]]`: one readout source.

use evb_core::{
    id::SourceId,
    units::{Bytes, Rate},
    wire::record::FRAGMENT_HEADER,
};

use super::{
    endpoint::is_unspecified,
    input::{self, FragmentSize, Input},
    name,
    section::Section,
    trigger::MulticastGroup,
};

/// The configuration of one readout source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceEntry {
    /// Id of the source.
    pub id: SourceId,
    /// Name of the source, for people; `None`: it has none.
    pub name: Option<String>,
    /// Local address from which the source sends; `None`: the kernel's routes determine it.
    pub bind: Option<String>,
    /// Host that runs the source, by name or address, if no other address of the source identifies
    /// it; `None`: any host.
    pub host: Option<String>,
    /// Rate of the source's link, in line bytes; `None`: that of all links.
    pub link_rate: Option<Rate>,
    /// Origin of the source's fragments.
    pub input: Input,
    /// Size of the largest fragment that the source accepts.
    pub max_fragment: Bytes,
    /// Bytes of unassigned fragments that the source keeps before readout must wait.
    pub backlog: Bytes,
    /// Processor core on which the source runs; `None`: any core.
    pub cpu: Option<usize>,
}

impl SourceEntry {
    /// Returns the name of the source's link: the local address or host, or "source 3" if neither
    /// is configured. Sources with the same name share one link.
    pub fn link_name(&self) -> String {
        let host = self.bind.as_ref().or(self.host.as_ref());
        host.cloned().unwrap_or_else(|| format!("source {}", self.id))
    }

    /// Returns the mean size of the source's fragments, including the lane's header; `None` if the
    /// size is unknown before the run.
    pub fn mean_in_lane(&self) -> Option<Bytes> {
        Some(self.input.mean_size()? + Bytes::new(FRAGMENT_HEADER))
    }
}

/// Default of `max_fragment` for inputs whose fragment sizes the configuration does not determine.
const MAX_FRAGMENT: Bytes = Bytes::mib(4);
const BACKLOG: Bytes = Bytes::mib(256);
/// The largest permitted `max_fragment`. Lanes encode lengths in 32 bits; half of that range leaves
/// room for sums of lengths.
const LARGEST_FRAGMENT: Bytes = Bytes::mib(2048);

pub(super) fn read(mut section: Section<'_>, id: u16, group: Option<&MulticastGroup>) -> Option<SourceEntry> {
    let name = name::read(&mut section);
    let bind = section.local_address("bind");
    let host = host(&mut section, bind.as_deref());
    let link_rate = section.rate("link_rate");
    let given = section.table("input");
    let input = section
        .need("input", given, "for example input = { kind = \"generator\", size = \"1 kB\" }")
        .and_then(|table| input::read(table, id, group));
    let given = section.some_bytes("max_fragment");
    let max_fragment = given.unwrap_or_else(|| input.as_ref().map_or(MAX_FRAGMENT, default_max));
    if max_fragment > LARGEST_FRAGMENT {
        let place = if given.is_some() { "max_fragment" } else { "input" };
        section.refuse(
            place,
            format!("fragments of up to {max_fragment} are larger than evb carries"),
            format!("stay within {LARGEST_FRAGMENT}"),
        );
    }
    if let Some(Input::Generator { size: FragmentSize::Fixed(size), .. }) = input
        && size > max_fragment
    {
        let reason = format!("every fragment has {size}, more than max_fragment");
        section.refuse("max_fragment", reason, "leave max_fragment out, or make it as large as the size");
    }
    let given = section.some_bytes("backlog");
    let backlog = given.unwrap_or_else(|| BACKLOG.max(max_fragment));
    if backlog < max_fragment {
        let reason = format!("a backlog of {backlog} is too small for a fragment of {max_fragment}");
        section.refuse("backlog", reason, "make the backlog larger or max_fragment smaller");
    }
    let cpu = cpu(&mut section);
    ["bind", "host", "input", "link_rate"].iter().for_each(|key| section.keep_place(key));
    section.finish();
    let (id, input) = (SourceId::new(id), input?);
    Some(SourceEntry { id, name, bind, host, link_rate, input, max_fragment, backlog, cpu })
}

/// Reads the host that runs the source; refuses it if the address from which the source sends
/// (`bind`) already identifies the host.
fn host(section: &mut Section<'_>, bind: Option<&str>) -> Option<String> {
    let host = section.host("host")?;
    if is_unspecified(&host) {
        let reason = format!("`{host}` stands for every host");
        section.refuse("host", reason, "write the name or an address of the host that runs this source");
        return None;
    }
    if let Some(bind) = bind.filter(|bind| !is_unspecified(bind)) {
        let reason = format!("`bind` says already that this source is on the host of {bind}");
        section.refuse("host", reason, "remove `host`, or `bind` if any address of that host will do");
        return None;
    }
    Some(host)
}

/// Returns the default of `max_fragment` for this input.
fn default_max(input: &Input) -> Bytes {
    match input {
        Input::Generator { size: FragmentSize::Fixed(size), .. } => (*size).max(Bytes::new(1)),
        Input::Generator { size, .. } => size.most(),
        Input::Replay { .. } | Input::Tcp { .. } | Input::Unix { .. } => MAX_FRAGMENT,
    }
}

/// Reads the number of a processor core.
pub(super) fn cpu(section: &mut Section<'_>) -> Option<usize> {
    section.whole("cpu", 0..=4095).and_then(|cpu| usize::try_from(cpu).ok())
}
