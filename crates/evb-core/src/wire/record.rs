//! lane records
