mod bench;
mod scripts;
mod hostile;
