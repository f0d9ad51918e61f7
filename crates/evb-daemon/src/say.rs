//! `say!` and `say_in_line!`: `println!` and `print!` for what commands tell. A reader that closes the pipe has seen enough: that is no
//! panic and no error.

/// Prints a line to standard output, if anybody reads it.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

/// Prints to standard output without ending the line, if anybody reads it.
macro_rules! say_in_line {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($what)*);
    }};
}
