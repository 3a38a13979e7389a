//! A pace that runs share: the server keeps its row by the rules that the simulator tries.

use crate::ledger::tests::postgres::pace_row;
use crate::pace::simulator::contract::exchanges;

#[test]
fn the_server_answers_runs_that_share_a_pace_as_the_simulator_does() {
    let Some(mut row) = pace_row() else {
        return;
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let exchanges = exchanges();
    let mut asks = exchanges.iter().map(|(_, ask, _)| ask);
    assert!(asks.any(|ask| ask.contains("\"holds\":true")));
    for (number, (at, ask, reply)) in exchanges.iter().enumerate() {
        assert_alike(&json(&row(*at, ask)), &json(reply), number);
    }
}

/// The same, except for the last digits of numbers.
fn assert_alike(found: &serde_json::Value, expected: &serde_json::Value, number: usize) {
    use serde_json::Value::{Array, Object};
    match (found, expected) {
        (Object(found), Object(expected)) => {
            for (name, expected) in expected {
                assert_alike(&found[name], expected, number);
            }
        }
        (Array(found), Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "reply {number}");
            for (found, expected) in found.iter().zip(expected) {
                assert_alike(found, expected, number);
            }
        }
        _ => match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => {
                assert!(
                    (found - expected).abs() < 1e-6,
                    "reply {number}: {found} {expected}"
                );
            }
            _ => assert_eq!(found, expected, "reply {number}"),
        },
    }
}
