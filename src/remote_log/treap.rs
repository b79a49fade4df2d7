//! Search trees whose nodes live elsewhere: treaps, with the node's mixed index as its rank.

use super::arena::Ix;

/// The links of a node: what sorts below it, and what sorts above.
pub(super) type Links = [Option<Ix>; 2];

pub(super) const BELOW: usize = 0;
pub(super) const ABOVE: usize = 1;

/// An order over nodes, and where their links are kept. Depth is logarithmic as long as the order
/// has nothing to do with the indices as the rank mixes them.
pub(super) trait Tree {
    fn links(&self, node: Ix) -> Links;
    fn set_links(&mut self, node: Ix, links: Links);
    /// Strict and total: of two nodes one is before the other.
    fn is_before(&self, node: Ix, other: Ix) -> bool;
    /// Computes anew what the node says of itself and all beneath it.
    fn summarize(&mut self, _node: Ix) {}
}

/// A bijection that leaves nothing of the order (the finalizer of Murmur3).
fn rank(node: Ix) -> u32 {
    let mut bits = node.get();
    bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
    bits ^ bits >> 16
}

fn link(tree: &mut impl Tree, node: Ix, links: Links) -> Ix {
    tree.set_links(node, links);
    tree.summarize(node);
    node
}

/// Adds a node that is in no tree of this kind; gives the new root.
pub(super) fn insert(tree: &mut impl Tree, root: Option<Ix>, node: Ix) -> Ix {
    match root {
        Some(top) if rank(top) > rank(node) => {
            let mut links = tree.links(top);
            let side = if tree.is_before(node, top) { BELOW } else { ABOVE };
            links[side] = Some(insert(tree, links[side], node));
            link(tree, top, links)
        }
        _ => {
            let links = split(tree, root, node);
            link(tree, node, links)
        }
    }
}

/// Takes a node out of the tree that it is in; gives the new root.
pub(super) fn remove(tree: &mut impl Tree, root: Option<Ix>, node: Ix) -> Option<Ix> {
    let top = root?;
    let mut links = tree.links(top);
    if top == node {
        return merge(tree, links);
    }
    let side = if tree.is_before(node, top) { BELOW } else { ABOVE };
    links[side] = remove(tree, links[side], node);
    Some(link(tree, top, links))
}

/// Parts a tree at a node that is not in it.
fn split(tree: &mut impl Tree, root: Option<Ix>, at: Ix) -> Links {
    let Some(top) = root else { return [None, None] };
    let [below, above] = tree.links(top);
    if tree.is_before(top, at) {
        let [near, far] = split(tree, above, at);
        [Some(link(tree, top, [below, near])), far]
    } else {
        let [far, near] = split(tree, below, at);
        [far, Some(link(tree, top, [near, above]))]
    }
}

/// Joins two trees, all of the first before all of the second.
fn merge(tree: &mut impl Tree, [first, second]: Links) -> Option<Ix> {
    let (Some(left), Some(right)) = (first, second) else { return first.or(second) };
    if rank(left) > rank(right) {
        let [below, above] = tree.links(left);
        let above = merge(tree, [above, second]);
        Some(link(tree, left, [below, above]))
    } else {
        let [below, above] = tree.links(right);
        let below = merge(tree, [first, below]);
        Some(link(tree, right, [below, above]))
    }
}
