//! evb
