//! The machine, the day, and the version: what a reader must know of a number.

use std::fs;

use crate::program::Program;
use crate::table::Run;

pub(crate) fn run(program: &Program) -> Run {
    Run {
        day: jiff::Zoned::now().strftime("%-d %B %Y").to_string(),
        version: program.version(),
        machine: machine(),
    }
}

/// The model of the processor, and the number of cores.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = text
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model.trim());
    let model = models.next().unwrap_or("unknown processor");
    format!("{model}, {} cores", 1 + models.count())
}
