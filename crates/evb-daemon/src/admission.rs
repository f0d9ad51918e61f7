//! Admission control.
