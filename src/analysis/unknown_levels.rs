//! Levels that are in no list, and how many rows have each: what to add to the lists.

use std::collections::BTreeMap;

use crate::base::error::column;

/// Numbers of rows by level, in bounded memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownLevels {
    rows: u64,
    /// By the level as it is shown: cut, and safe to print. `None` is no level at all.
    levels: BTreeMap<Option<Box<str>>, u64>,
}

/// How many different levels are told apart: a service has a handful. Where there are more, the pointer leads to
/// something else, and the first ones show that.
const MOST_LEVELS: usize = 100;

impl UnknownLevels {
    /// Counts a row with this level.
    pub(crate) fn count(&mut self, level: Option<&str>) {
        self.put(level.map(|level| column(level.trim()).into()), 1);
    }

    /// Adds the counts of another instance.
    pub(crate) fn add(&mut self, other: &Self) {
        let named: u64 = other.levels.values().sum();
        self.rows += other.rows - named;
        for (level, rows) in &other.levels {
            self.put(level.clone(), *rows);
        }
    }

    fn put(&mut self, level: Option<Box<str>>, rows: u64) {
        self.rows += rows;
        if let Some(count) = self.levels.get_mut(&level) {
            *count += rows;
        } else if self.levels.len() < MOST_LEVELS {
            self.levels.insert(level, rows);
        }
    }

    /// The number of rows.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// The most frequent levels, each with its rows; `None` is no level at all.
    #[must_use]
    pub(crate) fn most_frequent(&self, number: usize) -> Vec<(Option<&str>, u64)> {
        let levels = self.levels.iter();
        let mut levels: Vec<_> = levels
            .map(|(level, rows)| (level.as_deref(), *rows))
            .collect();
        levels.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        levels.truncate(number);
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_and_the_most_frequent_come_first() {
        let (mut levels, mut more) = (UnknownLevels::default(), UnknownLevels::default());
        for level in [Some("3"), None, Some(" 3 "), Some("x"), Some("3")] {
            levels.count(level);
        }
        more.count(Some("x"));
        more.count(Some("x"));
        more.count(Some("x"));
        levels.add(&more);
        assert_eq!(levels.rows(), 8);
        let all = [(Some("x"), 4), (Some("3"), 3), (None, 1)];
        assert_eq!(levels.most_frequent(5), all);
        assert_eq!(levels.most_frequent(1), all[..1]);
        let long = "é".repeat(50);
        more.count(Some(&long));
        let cut = format!("{}…", "é".repeat(40));
        assert_eq!(more.most_frequent(2), [(Some("x"), 3), (Some(&*cut), 1)]);
    }

    #[test]
    fn rows_are_counted_however_many_levels_there_are() {
        let (mut levels, mut sum) = (UnknownLevels::default(), UnknownLevels::default());
        for number in 0..1_000 {
            levels.count(Some(&number.to_string()));
        }
        levels.count(Some("7"));
        sum.add(&levels);
        sum.add(&levels);
        assert_eq!((levels.rows(), sum.rows()), (1_001, 2_002));
        assert_eq!(sum.most_frequent(1), [(Some("7"), 4)]);
        assert_eq!(sum.levels.len(), MOST_LEVELS);
    }
}
