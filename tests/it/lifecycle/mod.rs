//! The life of a run: its limits, signals, kills, and its use of the system.

mod at_limit;
mod budgets;
mod cost;
mod ended_at_once;
mod finishing;
mod hours;
mod kills;
mod limits;
mod part;
mod rounds;
mod signals;
mod status;
mod system;
mod unread;
mod wait_lock;
