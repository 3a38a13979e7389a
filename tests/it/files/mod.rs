//! Files: what is read of an input, and what is written where.

mod columns;
mod csv_rows;
mod existing;
mod full_disk;
mod input;
mod jsonl_rows;
mod names;
mod output;
mod overwrite;
mod own_files;
mod wrong_files;
