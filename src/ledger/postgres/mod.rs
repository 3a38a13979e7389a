//! Ledgers on a PostgreSQL server: the same tables as in a file, in the schema that the URL's `search_path` names, else in the
//! user's default one.
//!
//! - **One writer at a time.** Every transaction that writes first takes a lock on `meta`, as writers of a file do. So runs on
//!   many machines cannot deadlock, and whether a lease has ended is decided in one order. It is held for some round trips and
//!   one sync; while a run waits for it, its next group gathers.
//! - **One clock.** Ages and leases go by the server's clock.
//! - **An index of the server's** in place of the one in memory: one query finds the answers to all requests of a batch.
//! - **The secret is in `meta`**, as in a file: who may read the database and has a person's request can read that person's
//!   answer.
//!
//! A server that is away (it restarts, has no connection left, became a read-only copy, or its machine or network is dead, which
//! keepalives notice within 15 seconds, or another program holds the tables) is waited for, as long as [`ServerWait`](super::settings::ServerWait) says. A server
//! process that is suspended on a machine that lives is noticed while connecting, but not later: then the run waits for it.
//!
//! The client blocks, and must not be used on a thread that drives an asynchronous runtime.

mod server;
mod store;

pub(super) use store::{init, open};
