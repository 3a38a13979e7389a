//! Exact amounts of money: prices, budgets and costs.
//!
//! Amounts are whole numbers of billionths, so nothing is ever rounded, except that a budget divided by a price is rounded
//! down to whole calls. This file knows nothing of calls but their number.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::numbers::grouped;
use super::text::is_unsafe_to_print;

/// The most decimals: ten times finer than the finest prices of metered services.
const MAX_DECIMALS: usize = 9;
/// The most digits before the point: `u64::MAX` calls at the highest price still fit into an amount.
const MAX_WHOLE_DIGITS: usize = 10;
/// Billionths in a unit.
const UNIT: u128 = 1_000_000_000;
/// The fewest decimals that are shown: `12.00`, not `12`, which could be a number of calls.
const MIN_DECIMALS: usize = 2;

/// An amount that is not negative.
///
/// Shown as `1,234.50`: with at least two decimals and all that are needed. As JSON it is a number with all its digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money {
    /// How many billionths of a unit it is.
    pub(crate) billionths: u128,
}

/// The price of a call, above zero, with its currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tariff {
    /// The price of a call.
    pub(crate) price: Money,
    /// The unit of all amounts, which is only for display: `EUR`, `$`, `credits`; `None` if the user names none.
    pub(crate) currency: Option<String>,
}

impl FromStr for Money {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected an amount such as `500` or `0.004`, with up to 10 digits before the point and 9 after it";
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str, max| {
            (1..=max).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, MAX_WHOLE_DIGITS) || !digits(decimals, MAX_DECIMALS) {
            return Err(EXPECTED);
        }
        // Both are short and made of digits.
        format!("{whole}{decimals:0<MAX_DECIMALS$}")
            .parse()
            .map(|billionths| Self { billionths })
            .map_err(|_| EXPECTED)
    }
}

impl Money {
    /// What this many calls cost at this price.
    pub(crate) fn of(self, calls: u64) -> Self {
        // A price has at most 19 digits and a number of calls 20, so this does not saturate.
        Self {
            billionths: self.billionths.saturating_mul(calls.into()),
        }
    }

    /// How many whole calls at this price a budget still pays for, after `spent`.
    pub(crate) fn calls_for(self, budget: Self, spent: Self) -> u64 {
        let left = budget.billionths.saturating_sub(spent.billionths);
        let calls = left.checked_div(self.billionths).unwrap_or(0);
        calls.try_into().unwrap_or(u64::MAX)
    }

    /// The decimals without trailing zeros, but at least this many.
    fn decimals(self, fewest: usize) -> String {
        let mut decimals = format!("{:0MAX_DECIMALS$}", self.billionths % UNIT);
        let needed = decimals.trim_end_matches('0').len();
        decimals.truncate(needed.max(fewest));
        decimals
    }

    /// The amount as a double, for programs that know no exact numbers.
    pub(crate) fn as_f64(self) -> f64 {
        self.billionths as f64 / UNIT as f64
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            billionths: self.billionths.saturating_add(other.billionths),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = grouped(self.billionths / UNIT);
        write!(f, "{whole}.{}", self.decimals(MIN_DECIMALS))
    }
}

impl Serialize for Money {
    /// As a JSON number: a double would lose digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = format!("{}.{}", self.billionths / UNIT, self.decimals(1));
        RawValue::from_string(number)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'a> Deserialize<'a> for Money {
    /// As exact as a double: such an amount is only displayed.
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let amount = f64::deserialize(from)?;
        let amount = format!("{amount:.MAX_DECIMALS$}").parse();
        amount.map_err(serde::de::Error::custom)
    }
}

impl FromStr for Tariff {
    type Err = &'static str;

    /// An amount, and behind it a currency if there is one: `0.004`, `0.004 EUR`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        /// `credits` and other words fit; a sentence does not.
        const MAX_CHARACTERS: usize = 12;
        let is_of_amount = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_of_amount(c)).unwrap_or(text.len());
        let (price, currency) = text.split_at_checked(end).unwrap_or((text, ""));
        let currency = currency.trim();
        // A digit would be read as a part of the amount.
        let fits = |c: char| !(c.is_whitespace() || c.is_numeric() || is_unsafe_to_print(c));
        if currency.chars().count() > MAX_CHARACTERS || !currency.chars().all(fits) {
            return Err(
                "expected a price such as `0.004` or `0.004 EUR`: a currency is a word of at most 12 characters, without digits",
            );
        }
        let price: Money = price.parse()?;
        if price == Money::default() {
            return Err("a price is more than 0");
        }
        let currency = (!currency.is_empty()).then(|| currency.into());
        Ok(Self { price, currency })
    }
}

impl Tariff {
    /// The amount with its currency, if it has one: `1,234.50 EUR`.
    pub(crate) fn display(&self, amount: Money) -> String {
        match &self.currency {
            Some(currency) => format!("{amount} {currency}"),
            None => amount.to_string(),
        }
    }

    /// What this many calls cost, with the currency.
    pub(crate) fn display_for(&self, calls: u64) -> String {
        self.display(self.price.of(calls))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap()
    }

    fn tariff(text: &str) -> Tariff {
        text.parse().unwrap()
    }

    #[test]
    fn an_amount_is_shown_with_two_decimals_or_more_and_is_a_number_in_json() {
        for (text, shown, json) in [
            ("0", "0.00", "0.0"),
            ("0.004", "0.004", "0.004"),
            ("012.5", "12.50", "12.5"),
            ("1234567.500", "1,234,567.50", "1234567.5"),
            (
                "9999999999.999999999",
                "9,999,999,999.999999999",
                "9999999999.999999999",
            ),
        ] {
            assert_eq!(money(text).to_string(), shown);
            assert_eq!(serde_json::to_string(&money(text)).unwrap(), json);
        }
        assert_eq!(
            serde_json::from_str::<Money>("12.504").unwrap(),
            money("12.504")
        );
    }

    #[test]
    fn a_price_may_have_a_currency() {
        assert_eq!(tariff("0.004").display_for(2), "0.008");
        for text in ["0.004 EUR", "0.004EUR"] {
            assert_eq!(tariff(text).display_for(2), "0.008 EUR");
        }
        for bad in [
            "",
            "EUR",
            "EUR 1",
            "0",
            "0.000",
            "1 2",
            "1 E U",
            "0,004",
            "1e3",
            "-1",
            "1 E\u{1b}[1m",
            "1 abcdefghijklm",
        ] {
            assert!(bad.parse::<Tariff>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_not_a_plain_amount_is_refused() {
        for bad in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "NaN",
            "0,004",
            "1 000",
            "٣",
            "0.0000000001",
            "10000000000",
        ] {
            assert!(bad.parse::<Money>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_price_times_calls_is_exact_where_doubles_are_not() {
        // 0.1 + 0.2 and 3 * 0.1 are the usual victims.
        assert_eq!(money("0.1").of(3), money("0.3"));
        let most = money("9999999999.999999999").of(u64::MAX);
        assert_eq!(
            most.billionths,
            9_999_999_999_999_999_999 * u128::from(u64::MAX)
        );
    }

    #[test]
    fn a_budget_pays_for_whole_calls_rounded_down() {
        for (budget, at, calls) in [
            ("500", "0.004", 125_000),
            ("0.3", "0.1", 3),
            ("0.299999999", "0.1", 2),
            ("0.003", "0.004", 0),
            ("0", "0.004", 0),
            ("9999999999", "0.000000001", 9_999_999_999_000_000_000),
        ] {
            let paid = |spent| money(at).calls_for(money(budget), money(at).of(spent));
            assert_eq!(paid(0), calls, "{budget} {at}");
            assert_eq!(paid(2), calls.saturating_sub(2), "{budget} {at}");
        }
    }

    proptest! {
        #[test]
        fn a_budget_is_used_up_to_less_than_a_call(budget in 0..10_u64.pow(18), at in 1..10_u64.pow(12)) {
            let budget = Money { billionths: budget.into() };
            let price = Money { billionths: at.into() };
            let calls = price.calls_for(budget, Money::default());
            prop_assert!(price.of(calls) <= budget);
            prop_assert!(price.of(calls + 1) > budget);
        }

        #[test]
        fn what_is_written_is_read_again(billionths in 0..10_u128.pow(19)) {
            let amount = Money { billionths };
            let text = amount.to_string().replace(',', "");
            prop_assert_eq!(money(&text), amount);
        }
    }
}
