//! evb-sim
