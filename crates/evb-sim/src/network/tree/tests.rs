use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate},
};

use super::{Path, Tree, Trunk};

fn trunk(name: &str, above: Option<usize>, members: &[Peer]) -> Trunk {
    let (rate, buffer) = (Rate::from_bits_per_second(1_000_000), Bytes::kib(64));
    Trunk { name: name.to_owned(), rate, buffer, above, members: members.to_vec() }
}

fn source(id: u16) -> Peer {
    Peer::Source(SourceId::new(id))
}

#[test]
fn a_path_turns_at_the_lowest_common_switch() {
    let builder = Peer::Builder(BuilderId::new(1));
    let trunks = [
        trunk("left", None, &[source(1)]),
        trunk("right", None, &[builder]),
        trunk("deep", Some(0), &[source(2)]),
        trunk("deeper", Some(2), &[source(3)]),
    ];
    let tree = Tree::new(&trunks);
    let path = |from, to| {
        let Path { up, down } = tree.path(tree.home(from), tree.home(to));
        (up, down)
    };
    assert_eq!(path(source(3), builder), (vec![3, 2, 0], vec![1]));
    assert_eq!(path(builder, source(2)), (vec![1], vec![2, 0]));
    assert_eq!(path(source(3), source(1)), (vec![3, 2], vec![]));
    assert_eq!(path(source(1), source(3)), (vec![], vec![3, 2]));
    assert_eq!(path(source(9), builder), (vec![], vec![1]), "a peer of no trunk is at the root");
    assert_eq!(path(source(1), source(1)), (vec![], vec![]));
}

#[test]
fn what_is_no_tree_is_refused() {
    let twice = [trunk("a", None, &[source(1)]), trunk("b", None, &[source(1)])];
    let refused = |trunks: &[Trunk]| Tree::check(trunks).expect_err("refused");
    assert_eq!(refused(&twice), "trunk `b`: source 1 is a member twice");
    assert_eq!(
        refused(&[trunk("a", Some(0), &[])]),
        "the trunk above `a` is listed after it, and must come before it"
    );
    assert_eq!(Tree::check(&[trunk("a", None, &[]), trunk("b", Some(0), &[])]), Ok(()));
}
