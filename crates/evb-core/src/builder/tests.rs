mod bench;
mod scripts;
mod hostile;
mod faults;
mod datagrams;

pub(super) use bench::{DEADLINE, GrantAll, announcement, at, config, on_the_lane};
