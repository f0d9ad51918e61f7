//! The native part of the Python package `evb`: the functions of evb's crates for Python, with as
//! little code as possible. The package's own modules (`python/evb`) make the interface that people
//! use from these types.
//!
//! Python gets memory as an address and a size, with an object that keeps the memory alive
//! ([`memory::Memory`]): the limited C interface of Python before 3.11 has no buffers, and so one
//! wheel serves Python 3.9 and all later versions, with NumPy 1, NumPy 2 or without NumPy.

mod errors;
mod memory;
mod sys_map;
mod event;
mod batch;
mod file;
mod runs;
mod wait;
mod source;
mod sink;
mod builder;
mod local;

use pyo3::prelude::*;

/// The module `evb._evb`.
#[pymodule]
fn _evb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(event::cause_text, module)?)?;
    module.add_function(wrap_pyfunction!(event::alignment_text, module)?)?;
    module.add_function(wrap_pyfunction!(runs::find_runs, module)?)?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<event::Event>()?;
    module.add_class::<event::Finding>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<file::EventFile>()?;
    module.add_class::<file::Batches>()?;
    module.add_class::<runs::Realigned>()?;
    module.add_class::<source::Source>()?;
    module.add_class::<builder::Builder>()?;
    module.add_class::<local::LocalRun>()?;
    Ok(())
}
