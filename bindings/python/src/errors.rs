//! The exceptions that the native part raises.

use evb::{
    file::ReadError,
    source::{PushError as Pushing, TryPushError},
};
use pyo3::{create_exception, exceptions::PyException, prelude::*};

create_exception!(
    evb,
    Error,
    PyException,
    "An error of evb; the text says whose fault it is and what to do."
);
create_exception!(evb, FileError, Error, "A file that cannot be read, or an event that is damaged.");
create_exception!(evb, PushError, Error, "A fragment that a source did not take.");
create_exception!(evb, EndedError, PushError, "The run is over, so the source takes no more fragments.");

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("FileError", py.get_type::<FileError>())?;
    module.add("PushError", py.get_type::<PushError>())?;
    module.add("EndedError", py.get_type::<EndedError>())
}

/// Returns the exception for an error of evb that has no class of its own.
pub(crate) fn error(cause: impl ToString) -> PyErr {
    Error::new_err(cause.to_string())
}

pub(crate) fn unreadable(cause: &ReadError) -> PyErr {
    FileError::new_err(cause.to_string())
}

pub(crate) fn not_pushed(cause: &Pushing) -> PyErr {
    match cause {
        Pushing::Ended => EndedError::new_err(cause.to_string()),
        _ => PushError::new_err(cause.to_string()),
    }
}

pub(crate) fn not_taken(cause: &TryPushError) -> PyErr {
    match cause {
        TryPushError::Ended(_) => EndedError::new_err(cause.to_string()),
        _ => PushError::new_err(cause.to_string()),
    }
}
