//! evb-file
