//! evb: an asynchronous event builder.

pub mod role;
pub mod filter;
pub mod sink;
pub mod source;
pub mod builder;
pub mod input;
