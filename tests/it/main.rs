//! What a user gets: the real program, real files, a server that does as each test says.
//!
//! `documents`, `ledger_file`, `server`, `process` and `users` are the support; every other module is a topic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    // Seeds and figures, seen when a test fails.
    clippy::print_stdout,
    clippy::string_slice,
    // A real process and a real network live in real time.
    clippy::disallowed_methods,
    missing_docs
)]

mod documents;
mod ledger_file;
mod process;
mod server;
mod users;

mod addresses;
mod columns;
mod connecting;
mod csv_rows;
mod damage;
mod drift;
mod echoes;
mod existing;
mod finished;
mod fresh;
mod full_disk;
mod give_up;
mod hostile;
mod http2;
mod input;
mod jsonl_rows;
mod key;
mod kills;
mod known_limits;
mod ledger_commands;
mod limits;
#[cfg(target_os = "linux")]
mod memory;
mod names;
mod network;
mod older_answers;
mod outage;
mod output;
mod overwrite;
mod own_files;
mod poison;
mod readme;
mod real_limits;
mod reference;
mod rehearsals;
mod resume;
mod retry_after;
mod sandbox;
mod secrets;
mod service;
mod settings;
mod shared;
mod signals;
mod statuses;
mod stops;
mod tls;
mod unread;
mod watching;
mod what_is_shown;
mod wrong_files;
