mod bench;
mod scripts;
mod hostile;
mod faults;
