//! Rounds: what is compared is measured in turn, so that whatever else the machine does meets all alike.

/// Rounds of what takes seconds.
pub(crate) const ROUNDS: usize = 5;
/// Rounds of what takes ten seconds and more, most of them waiting.
pub(crate) const FEW_ROUNDS: usize = 3;

/// Takes each way once a round, and returns the values of each.
pub(crate) fn in_turn<T, const WAYS: usize>(
    rounds: usize,
    mut ways: [&mut dyn FnMut() -> T; WAYS],
) -> [Vec<T>; WAYS] {
    let mut values = [const { Vec::new() }; WAYS];
    for round in 1..=rounds {
        eprint!("\r  round {round} of {rounds} ");
        for (way, values) in ways.iter_mut().zip(&mut values) {
            values.push(way());
        }
    }
    eprintln!();
    values
}
