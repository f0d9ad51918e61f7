//! `say!` and `say_in_line!`: `println!` and `print!` for the output of commands. If the reader of
//! the output closes the pipe, the macros cause neither a panic nor an error.

/// Prints a line to standard output. Errors, for example of a closed pipe, are ignored.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

/// Prints to standard output without ending the line. Errors, for example of a closed pipe, are
/// ignored.
#[macro_export]
macro_rules! say_in_line {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($what)*);
    }};
}
