//! The table of layers in `docs/architecture.md`.

use std::collections::BTreeSet;

/// The modules of each layer, from the top down. A row whose first cell is empty is of the same layer as the row above.
pub(crate) fn layers(page: &str) -> Vec<BTreeSet<&str>> {
    let (_, table) = page.split_once("| Layer | Modules | Job |\n").unwrap();
    let mut layers: Vec<BTreeSet<_>> = Vec::new();
    for row in table.lines().skip(1).take_while(|row| row.starts_with('|')) {
        let module = row.split('`').nth(1).unwrap();
        match layers.last_mut() {
            Some(layer) if row.starts_with("| |") => {
                layer.insert(module);
            }
            _ => layers.push(BTreeSet::from([module])),
        }
    }
    layers
}
