//! `say!`, `say_in_line!` and `complain!`: `println!`, `print!` and `eprintln!` for the output of
//! commands. If the reader of the output closes the pipe, the macros cause neither a panic nor an
//! error; control characters in texts from outside have no effect ([`Plain`]).

#[cfg(test)]
mod tests;

use std::io::{self, Write};

/// A writer that escapes control characters, except ends of lines and tabulators. Texts from files,
/// names of files, peers and servers must not command the terminal.
///
/// ```
/// use std::io::Write;
///
/// let mut shown = evb_config::Plain(Vec::new());
/// write!(shown, "file {}", "\u{1b}[2Jx.evb")?;
/// assert_eq!(shown.0, b"file \\x1b[2Jx.evb");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: Write> Write for Plain<W> {
    /// Writes text with each control character replaced by an escape.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(place) = (0..rest.len()).find(|place| control_at(rest, *place) > 0) {
            self.0.write_all(&rest[..place])?;
            let length = control_at(rest, place);
            write!(self.0, "\\x{:02x}", rest[place + length - 1])?;
            rest = &rest[place + length..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the number of bytes of the control character that begins at a place; 0 if there is none.
fn control_at(bytes: &[u8], place: usize) -> usize {
    match (bytes[place], bytes.get(place + 1)) {
        (b'\n' | b'\t', _) => 0,
        (0..=0x1f | 0x7f, _) => 1,
        // U+0080 to U+009F in UTF-8, which terminals take for escape sequences.
        (0xc2, Some(0x80..=0x9f)) => 2,
        _ => 0,
    }
}

/// Prints a line to standard output. Errors, for example of a closed pipe, are ignored.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::Plain(std::io::stdout()), $($what)*);
    }};
}

/// Prints to standard output without ending the line. Errors, for example of a closed pipe, are
/// ignored.
#[macro_export]
macro_rules! say_in_line {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!($crate::Plain(std::io::stdout()), $($what)*);
    }};
}

/// Prints a line to standard error. Errors are ignored.
#[macro_export]
macro_rules! complain {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::Plain(std::io::stderr()), $($what)*);
    }};
}
