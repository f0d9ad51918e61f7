//! evb: an asynchronous event builder.

pub mod role;
pub mod filter;
pub mod sink;
pub mod source;
pub mod builder;
pub mod trigger_feed;
pub mod input;
pub mod supervisor;

pub use evb_core::{event, fragment, id, ledger, units};
