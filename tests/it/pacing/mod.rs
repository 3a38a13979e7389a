//! Pacing: the run finds limits, keeps to them, and waits for outages to end.

mod bare_503;
mod failing_rows;
mod give_up;
mod known_limits;
mod outage;
mod real_limits;
mod rehearsals;
