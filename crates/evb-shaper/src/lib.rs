//! evb-shaper
