//! Pacing: limits are found and kept, outages waited for.

mod failing_requests;
mod give_up;
mod known_limits;
mod outage;
mod real_limits;
mod rehearsals;
