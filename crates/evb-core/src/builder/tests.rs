mod bench;
mod scripts;
mod hostile;
mod faults;
mod datagrams;
mod reports;

pub(super) use bench::{DEADLINE, GrantAll, announcement, at, config, on_the_lane};
