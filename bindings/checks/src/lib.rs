//! Checks what evb offers to other languages and programs: the C and C++ bindings, the Python
//! package, the readers of event files, the exports. Each check drives compilers and programs that
//! users have; `cargo xtask eco` runs it.
#![allow(missing_docs)] // `cargo xtask eco` alone uses them; names and types say the rest.

pub mod file_cpp;
pub mod c;
pub mod c_speed;
pub mod python;
pub mod adapters;
pub mod export;
pub mod boards;
pub mod directories;
