//! `[[source]]`: one readout source.

use std::time::Duration;

use evb_core::{
    alignment::{DetectorClock, TriggerCounter},
    id::SourceId,
    units::{Bytes, Rate},
    wire::record::FRAGMENT_HEADER,
};

use serde::Deserialize;

use super::{
    clock::GivenClock,
    counter::{self, GivenCounter},
    endpoint::is_unspecified,
    entries::Placed,
    forms::{As, DataRate, Host, LocalAddress, Positive, Quantity, Whole},
    input::{self, FragmentSize, Hooks, Input},
    name::Name,
    section::{Notes, Section},
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
    /// Actions with its boards when a run starts, and after its end.
    pub hooks: Hooks,
    /// Size of the largest fragment that the source accepts.
    pub max_fragment: Bytes,
    /// Bytes of unassigned fragments that the source keeps before readout must wait.
    pub backlog: Bytes,
    /// Processor core on which the source runs; `None`: any core.
    pub cpu: Option<usize>,
    /// Clock of the timestamps; `None`: evb does not compare them.
    pub clock: Option<DetectorClock>,
    /// Trigger counter that front ends send in place of event ids; `None`: they send event ids.
    pub counter: Option<TriggerCounter>,
    /// Need of events for the source.
    pub need: Need,
    /// Given if the source sends fragments of some events only, and owes none: the time for which
    /// an event that has all other fragments waits for it.
    pub sporadic: Option<Duration>,
}

impl SourceEntry {
    /// Returns true if its boards send frames that have neither a counter nor a clock, so that
    /// nothing shows a lost one.
    pub fn is_unprotected(&self) -> bool {
        self.input.frame().is_some_and(|frame| frame.counter.is_none()) && self.clock.is_none()
    }
}

/// Need of events for a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Events without a fragment of the source are incomplete.
    #[default]
    Essential,
    /// Events without a fragment of the source are complete.
    Expendable,
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

/// The entry as the configuration gives it, before defaults are filled in.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GivenSource {
    /// The name of the source for people, such as `"TPC crate 1"`. It appears with the id in logs,
    /// status, summaries and event files; a peer is always identified by its id. At most 64 bytes,
    /// without control characters, and different for each source. With `ids`, write `{id}` into the
    /// name.
    ///
    /// Default: none
    #[serde(default, with = "As::<Name>")]
    name: Option<String>,
    /// The local address from which the source sends, without a port. Admission control assumes
    /// that sources with the same address share one link.
    ///
    /// Default: chosen by the host's routes
    #[serde(default, with = "As::<LocalAddress>")]
    bind: Option<String>,
    /// The host that runs the source, by name or address, for [`--here`](#which-host-runs-what), if
    /// the source has no `bind`. Admission control assumes that sources on the same host share one
    /// link.
    #[serde(default, with = "As::<Host>")]
    host: Option<String>,
    /// The rate of the source's link, in line bytes. Sources on the same host share one link and
    /// have the same rate.
    ///
    /// Default: `link_rate` of `[network]`
    #[serde(default, with = "As::<DataRate>")]
    link_rate: Option<Rate>,
    /// The [input](#input) from which the source gets its fragments.
    input: input::GivenInput,
    /// The largest payload of a fragment. The input refuses larger fragments. Each builder reserves
    /// slots × Σ `max_fragment`.
    ///
    /// Default: the size of a generator or of frames with fixed size; mean + 8 sigma of a generator
    /// with a distribution; else 4 MiB
    #[serde(default, with = "As::<Positive<Bytes>>")]
    max_fragment: Option<Bytes>,
    /// The bytes of fragments without a decision that the source keeps; when this limit is reached,
    /// readout must wait.
    ///
    /// Default: `"256 MiB"`
    #[serde(default, with = "As::<Positive<Bytes>>")]
    backlog: Option<Bytes>,
    /// The processor core on which it runs.
    ///
    /// Default: any
    #[serde(default, with = "Whole::<0, 4095>")]
    cpu: Option<usize>,
    /// The [clock](#clock) that the boards read for the timestamps of their fragments, by which evb
    /// finds events whose fragments do not belong together.
    ///
    /// Default: none
    clock: Option<GivenClock>,
    /// The [trigger counter](#counter) that the front ends send in place of event ids, or that
    /// their [frames](#frame) have, such as the 16 bits of a board. The source finds the event of
    /// each value. What has none is not used, and is a problem in the report.
    ///
    /// Default: none: front ends send event ids
    counter: Option<GivenCounter>,
    /// The need of events for the source. An event without a fragment of an `"essential"` source is
    /// incomplete. An event is complete without an `"expendable"` one, for which it waits until its
    /// deadline at most, and not at all while the source is down or its readout is silent; event
    /// files list it as absent. A run that begins by itself waits for it for `start_timeout`.
    /// `on_source_loss` holds for essential sources only. At least one source is essential.
    ///
    /// Default: `"essential"`
    #[serde(default)]
    need: Need,
    /// The fragments that the source owes: one of each event (`"all"`), or none (`"none"`), for a
    /// slow control system or a monitor that fires at times. Such a source gets all decisions, and
    /// what it has delivered when an event has all other fragments joins the event. The source is
    /// never missing, absent or silent, and later fragments are counted as late.
    ///
    /// Default: `"all"`
    #[serde(default)]
    owes: Owes,
    /// With `owes = "none"`, the time for which an event that has all other fragments waits for the
    /// source; events wait for the longest such time of all sources. It costs latency and slots.
    ///
    /// Default: no time
    #[serde(default, with = "As::<Quantity<Duration>>")]
    wait: Option<Duration>,
}

/// The fragments that a source owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Owes {
    /// A fragment of each event.
    #[default]
    All,
    /// Nothing.
    None,
}

/// Reads the section of a source, fills in defaults, and refuses what cannot be.
pub(super) fn read(section: &Section<'_>, id: u16, group: Option<&MulticastGroup>) -> Option<SourceEntry> {
    let mut given: GivenSource = section.read()?;
    if let Some(bind) = &given.bind {
        section.allow_host("bind", bind);
    }
    if let Some(host) = &given.host {
        check_host(section, host, given.bind.as_deref());
    }
    let hooks = given.input.take_hooks(section);
    let input = given.input.checked(section, id, group);
    let usual_max = || input.as_ref().map_or(MAX_FRAGMENT, default_max);
    let max_fragment = given.max_fragment.unwrap_or_else(usual_max);
    if max_fragment > LARGEST_FRAGMENT {
        let place = if given.max_fragment.is_some() { "max_fragment" } else { "input" };
        let reason = format!("fragments of up to {max_fragment} are larger than evb carries");
        section.refuse(place, reason, format!("give at most {LARGEST_FRAGMENT}"));
    }
    if let Some(Input::Generator { size: FragmentSize::Fixed(size), .. }) = input
        && size > max_fragment
    {
        let reason = format!("every fragment has {size}, more than max_fragment = {max_fragment}");
        section.refuse("max_fragment", reason, "leave max_fragment out, or make it as large as the size");
    }
    if let Some(size) = input.as_ref().and_then(Input::fixed_size).filter(|size| *size > max_fragment) {
        let reason =
            format!("every frame gives a fragment of {size}, more than max_fragment = {max_fragment}");
        section.refuse("max_fragment", reason, "leave max_fragment out, or make it as large as a frame");
    }
    let backlog = given.backlog.unwrap_or_else(|| BACKLOG.max(max_fragment));
    if backlog < max_fragment {
        let reason = format!("a backlog of {backlog} is too small for a fragment of {max_fragment}");
        section.refuse(
            "backlog",
            reason,
            format!("give at least {max_fragment}, or make max_fragment smaller"),
        );
    }
    let owes_none = given.owes == Owes::None;
    if owes_none && given.need == Need::Expendable {
        let reason = "events never wait for a source with owes = \"none\", so its `need` has no effect";
        section.refuse("need", reason, "remove `need`, or `owes`");
    }
    if given.wait.is_some() && !owes_none {
        let remedy = "remove `wait`, or add owes = \"none\"; `deadline` of [supervisor] is for other sources";
        section.refuse("wait", "only sources with owes = \"none\" have a `wait` of their own", remedy);
    }
    let sporadic = owes_none.then(|| given.wait.unwrap_or_default());
    let GivenSource { name, bind, host, link_rate, cpu, .. } = given;
    let (id, input) = (SourceId::new(id), input?);
    let clock = given.clock.and_then(|clock| clock.checked(section, input.frame()));
    let counter = counter::checked(given.counter.as_ref(), section, &input);
    section.finish(SourceEntry {
        id,
        name,
        bind,
        host,
        link_rate,
        input,
        hooks,
        max_fragment,
        backlog,
        cpu,
        clock,
        counter,
        need: given.need,
        sporadic,
    })
}

/// Refuses a system of which every source is expendable, because its events could be empty.
pub(super) fn refuse_if_none_is_essential(notes: &Notes, sources: &[Placed<SourceEntry>]) {
    if let Some(first) = sources.first()
        && sources
            .iter()
            .all(|placed| placed.entry.need == Need::Expendable || placed.entry.sporadic.is_some())
    {
        let reason = "every source is expendable or has owes = \"none\", so that an event may be complete without any fragment";
        notes.error(
            "source.need",
            first.span.clone(),
            reason,
            "let at least one source be essential: remove its `need` and `owes`",
        );
    }
}

/// Refuses a host that stands for every host, and one beside an address from which the source sends
/// (`bind`), which identifies the host already.
fn check_host(section: &Section<'_>, host: &str, bind: Option<&str>) {
    if !section.allow_host("host", host) {
        return;
    }
    if is_unspecified(host) {
        let reason = format!("`{host}` stands for every host");
        section.refuse("host", reason, "write the name or an address of the host that runs this source");
    } else if let Some(bind) = bind.filter(|bind| !is_unspecified(bind)) {
        let reason = format!("`bind` says already that this source is on the host of {bind}");
        section.refuse("host", reason, "remove `host`, or `bind` if any address of that host will do");
    }
}

/// Returns the default of `max_fragment` for this input.
fn default_max(input: &Input) -> Bytes {
    match input {
        Input::Generator { size: FragmentSize::Fixed(size), .. } => (*size).max(Bytes::new(1)),
        Input::Generator { size, .. } => size.most(),
        _ => input.fixed_size().unwrap_or(MAX_FRAGMENT).max(Bytes::new(1)),
    }
}
