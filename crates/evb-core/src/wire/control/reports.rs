//! The reports whose fields are the rows of the [table of counters](crate::counter_table).
#![allow(missing_docs)]

use crate::{
    counter_table::{lane_counters, source_counters},
    wire::encoding::messages,
};

/// Declares the messages with the rows of the tables of sources and lanes, and the messages in
/// them.
macro_rules! reports {
    ({ $($source:tt)* } $($(#[doc = $doc:literal])* $field:ident: u64 = $number:literal [$($note:tt)*];)*) => {
        messages! {
            derive(Eq);
            /// Two fragments of a source for the same event that have not the same payload and
            /// timestamp.
            #[derive(Copy)]
            pub struct ContradictionReport { event: u64 = 1, first_timestamp: u64 = 2, second_timestamp: u64 = 3 }
            /// Number of TCP segments and of ranges that a source's lane to one builder sent again.
            #[derive(Copy)]
            pub struct PathReport { builder: u32 = 1, tcp_retransmits: u64 = 2, resends: u64 = 3 }
            /// Durations of a role's stages between a grant and its data, sampled with the role's
            /// own clock. Histograms are pairs (value in µs, count), and are empty if nothing was
            /// measured.
            pub struct GrantStages { wake_us: Vec<u64> = 1, write_us: Vec<u64> = 2 }
            /// Counts of trains that the source's own kernel dropped or did not split into
            /// datagrams.
            #[derive(Copy)]
            pub struct TrainReport { send_drops: u64 = 1, segmentation_refused: u64 = 2, uncut: u64 = 3 }
            pub struct SourceReport { $($source)* }
            #[derive(Copy)]
            pub struct LaneReport { source: u32 = 1, $($field: u64 = $number),* }
        }

        impl LaneReport {
            /// Adds the counters of `lane`, without overflow (docs/reference/protocol.md RUN-18).
            pub fn add(&mut self, lane: &Self) {
                $(self.$field = self.$field.saturating_add(lane.$field);)*
            }
        }
    };
}

/// Passes the fields of a source's report and the rows of the table of lanes to [`reports`].
macro_rules! with_lanes {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = $number:literal [$($note:tt)*];)*) => {
        lane_counters! { reports! { { $($field: $type = $number),* } } }
    };
}

source_counters! { with_lanes! {} }
