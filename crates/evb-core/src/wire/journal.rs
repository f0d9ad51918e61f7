//! What a supervisor writes down of a run, as generated from `proto/journal.proto`.

#[allow(missing_docs, clippy::use_self, unreachable_pub, unused_qualifications)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/evb.journal.v1.rs"));
}

pub use generated::*;
