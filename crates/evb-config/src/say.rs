//! `say!` and `say_in_line!`: `println!` and `print!` for the output of commands. A reader that
//! closes the pipe has seen enough, and causes neither a panic nor an error.

/// Prints a line to standard output, and ignores errors such as a closed pipe.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

/// Prints to standard output without ending the line, and ignores errors such as a closed pipe.
#[macro_export]
macro_rules! say_in_line {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stdout(), $($what)*);
    }};
}
