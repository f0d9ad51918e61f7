//! Lines of JSON between the two ends of a measurement.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Serialize, de::DeserializeOwned};

/// Sends a line.
pub(super) fn write(writer: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    writer.write_all(line.as_bytes())
}

/// Reads a line of at most `longest` bytes; `None` if the connection was closed.
pub(super) fn read<T: DeserializeOwned>(reader: &mut impl BufRead, longest: u64) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    reader.take(longest).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
}
