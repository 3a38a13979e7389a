//! When a call may start: the only owner of the rate, the calls in flight, the pauses and the circuit breaker.
//!
//! Pure arithmetic over time and outcomes: nothing here reads a clock (times are since the run started), waits, draws random
//! numbers or does I/O. `gate` asks before every call and reports how each one ended; the simulator in the tests does the
//! same.

mod admission;
mod interval;
mod outcome;
mod refusal;
#[cfg(test)]
mod share_tests;
mod state;
#[cfg(test)]
mod tests;

pub(super) use state::Controller;
