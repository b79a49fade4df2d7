//! Every planted fault is found: the explorer looks at all that it breaks.

use tidelog_sim::hunt_all;

#[test]
fn every_planted_fault_is_found() {
    let hunted = hunt_all(7, 60_000, 2);
    for hunted in &hunted {
        println!("{hunted}");
    }
    let surviving: Vec<_> = hunted.iter().filter(|hunted| hunted.broken.is_none()).collect();
    assert!(surviving.is_empty(), "{surviving:?}");
    assert!(hunted.len() > 50);
}
