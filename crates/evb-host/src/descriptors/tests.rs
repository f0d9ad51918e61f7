use std::fs;

use super::{hard_limit, raise};

#[test]
fn the_soft_limit_becomes_the_hard_one() {
    let raised = raise().expect("permitted");
    assert_eq!(raised, hard_limit());
    let limits = fs::read_to_string("/proc/self/limits").expect("readable");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("listed");
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
}
