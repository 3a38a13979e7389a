//! What every section needs: the program, its files, and whole runs.

use std::fs;
use std::path::Path;

use crate::data::Files;
use crate::process::{Process, Used};
use crate::program::{Ledger, Program, scored};
use crate::table::number;

/// The program, and the files to try it with.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) program: Program,
    pub(crate) files: Files,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let files = Files::new();
        Self {
            program: Program::new(&files),
            files,
        }
    }

    /// A whole run over a file with so many rows, in a directory of its own.
    pub(crate) fn whole_run(&self, (input, rows): (&Path, u32), url: &str, ledger: Ledger) -> Ran {
        let place = self.files.place();
        let output = scored(place.path(), input);
        let mut command = self.program.run(input, &output, url, ledger);
        let used = Process::start(&mut command).finish();
        Ran::new(rows, used, &output)
    }
}

/// A run that has finished.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    rows: u32,
    used: Used,
    /// The length of its output.
    output: u64,
}

impl Ran {
    pub(crate) fn new(rows: u32, used: Used, output: &Path) -> Self {
        Self {
            rows,
            used,
            output: fs::metadata(output).unwrap().len(),
        }
    }

    /// Rows a second, from the start of the process to its end.
    pub(crate) fn speed(&self) -> f64 {
        f64::from(self.rows) / self.used.seconds
    }

    /// CPU time a row, in microseconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.used.cpu / f64::from(self.rows) * 1e6
    }

    /// Bytes sent to the disk a row, without the length of the output.
    pub(crate) fn written(&self) -> f64 {
        number(self.used.written) / f64::from(self.rows)
            - number(self.output) / f64::from(self.rows)
    }

    /// The most memory, in MiB.
    pub(crate) fn peak(&self) -> f64 {
        self.used.peak
    }
}
