//! The text of `evbd check`.
