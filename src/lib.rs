//! evb: an asynchronous event builder.

mod role;
pub mod filter;
pub mod sink;
pub mod source;
pub mod builder;
