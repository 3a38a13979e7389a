//! The table, printed line by line as the lines are measured.

/// Its head.
pub(crate) const HEAD: &str = "| service | rows in the file | seen | of what is possible | refusals | aim | more |\n|---|--:|---|--:|---|---|---|";

/// A line.
pub(crate) struct Line<'a> {
    pub(crate) service: &'a str,
    pub(crate) rows: u32,
    pub(crate) seen: String,
    /// Of what is possible, where that is known.
    pub(crate) share: Option<f64>,
    pub(crate) refusals: Refusals,
    pub(crate) aim: &'a str,
    pub(crate) more: String,
}

/// How many calls were refused, of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusals {
    pub(crate) refused: u32,
    pub(crate) calls: u32,
}

impl Line<'_> {
    pub(crate) fn print(self) {
        let share = self
            .share
            .map_or("–".to_owned(), |share| format!("{share:.3}"));
        println!(
            "| {} | {} | {} | {share} | {} | {} | {} |",
            self.service,
            self.rows,
            self.seen,
            self.refusals.words(),
            self.aim,
            self.more,
        );
    }
}

/// Prints a line for a service that is not there.
pub(crate) fn skip(service: &str, why: &str) {
    println!("| {service} | – | – | – | – | – | skipped: {why} |");
}

impl Refusals {
    fn words(self) -> String {
        if self.refused == 0 {
            return "0".to_owned();
        }
        let each = f64::from(self.calls) / f64::from(self.refused);
        format!("{} (1 in {each:.0})", self.refused)
    }
}
