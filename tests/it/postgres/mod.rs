//! A ledger on a PostgreSQL server: made once, used by many, and looked after by hand.

mod init;
