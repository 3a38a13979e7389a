//! Files: what a run reads, and what it writes where.

mod columns;
mod csv_rows;
mod encodings;
mod existing;
mod full_disk;
mod input;
mod jsonl_rows;
mod names;
mod no_header;
mod output;
mod overwrite;
mod own_files;
mod phones;
mod reasons;
mod rejects;
mod rescoring;
mod streams;
mod wrong_files;
