use super::{BuilderIndex, Per};

#[test]
fn each_position_has_its_value() {
    let mut values: Per<BuilderIndex, u32> = [5, 7].into_iter().collect();
    values.push(9);
    values[BuilderIndex::new(1)] += 1;
    let found: Vec<(usize, u32)> = values.positions().map(|at| (at.get(), values[at])).collect();
    assert_eq!((found, values.len()), (vec![(0, 5), (1, 8), (2, 9)], 3));
    assert_eq!((values.get(BuilderIndex::new(2)), values.get(BuilderIndex::new(3))), (Some(&9), None));
}
