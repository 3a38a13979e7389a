//! Pacing: the run finds limits, keeps to them, and waits for outages to end.

mod limits;
mod outage;
