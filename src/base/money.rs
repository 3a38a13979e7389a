//! Exact amounts of money: what a call costs, what a run may cost, and what it has cost.
//!
//! Amounts are whole numbers of billionths, so nothing is ever rounded, except that a budget divided by a price is rounded
//! down to whole calls. This file knows nothing of calls but their number.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::control_chars::is_unsafe_to_print;
use super::thousands::grouped;

/// The most decimals: ten times finer than the finest prices of metered services.
const DECIMALS: usize = 9;
/// The most digits before the point: `u64::MAX` calls at the highest price still fit into an amount.
const WHOLE_DIGITS: usize = 10;
/// Billionths in a unit.
const UNIT: u128 = 1_000_000_000;
/// The fewest decimals that are shown: `12.00`, not `12`, which could be a number of calls.
const SHOWN_DECIMALS: usize = 2;

/// An amount that is not negative.
///
/// Shown as `1,234.50`: with at least two decimals and all that are needed. As JSON it is a number with all its digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money {
    billionths: u128,
}

/// What a call costs: more than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    billionths: NonZeroU128,
}

/// The unit of all amounts, which is only shown: `EUR`, `$`, `credits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Currency(Box<str>);

/// What calls cost, and in which currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tariff {
    /// Of a call.
    pub(crate) price: Price,
    /// `None` where the user names none.
    pub(crate) currency: Option<Currency>,
}

impl FromStr for Money {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected an amount such as `500` or `0.004`, with up to 10 digits before the point and 9 after it";
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str, most| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, WHOLE_DIGITS) || !digits(decimals, DECIMALS) {
            return Err(EXPECTED);
        }
        // Both are short and made of digits.
        format!("{whole}{decimals:0<DECIMALS$}")
            .parse()
            .map(|billionths| Self { billionths })
            .map_err(|_| EXPECTED)
    }
}

impl FromStr for Price {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Money { billionths } = text.parse()?;
        let billionths = NonZeroU128::new(billionths).ok_or("a price is more than 0")?;
        Ok(Self { billionths })
    }
}

impl Price {
    /// What this many calls cost.
    #[must_use]
    pub(crate) fn of(self, calls: u64) -> Money {
        // A price has at most 19 digits and a number of calls 20, so this does not saturate.
        Money {
            billionths: self.billionths.get().saturating_mul(calls.into()),
        }
    }

    /// How many whole calls a budget pays for; `None` if it pays for none.
    #[must_use]
    pub(crate) fn calls_for(self, budget: Money) -> Option<NonZeroU64> {
        let calls = budget.billionths / self.billionths;
        NonZeroU64::new(calls.try_into().unwrap_or(u64::MAX))
    }

    const fn amount(self) -> Money {
        Money {
            billionths: self.billionths.get(),
        }
    }
}

impl Money {
    /// The decimals without trailing zeros, but at least this many.
    fn decimals(self, fewest: usize) -> String {
        let mut decimals = format!("{:0DECIMALS$}", self.billionths % UNIT);
        let needed = decimals.trim_end_matches('0').len();
        decimals.truncate(needed.max(fewest));
        decimals
    }
}

impl Money {
    /// The amount as a double, for programs that have nothing better.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "that is what a double is")]
    pub(crate) fn as_f64(self) -> f64 {
        self.billionths as f64 / UNIT as f64
    }
}

impl Currency {
    /// The word.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = grouped(self.billionths / UNIT);
        write!(f, "{whole}.{}", self.decimals(SHOWN_DECIMALS))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.amount().fmt(f)
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
    /// As exact as a double: it is only shown again.
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        #[allow(clippy::cast_precision_loss, reason = "that is what a double is")]
        let billionths = (f64::deserialize(from)? * UNIT as f64).round();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a negative number becomes 0, and one that is too large the largest"
        )]
        let billionths = billionths as u128;
        Ok(Self { billionths })
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.amount().serialize(serializer)
    }
}

impl FromStr for Currency {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        /// `credits` and other words fit; a sentence does not.
        const CHARACTERS: usize = 12;
        // A digit would be read as a part of the amount.
        let fits = |c: char| !(c.is_whitespace() || c.is_numeric() || is_unsafe_to_print(c));
        if (1..=CHARACTERS).contains(&text.chars().count()) && text.chars().all(fits) {
            return Ok(Self(text.into()));
        }
        Err(
            "expected a price such as `0.004` or `0.004 EUR`: a currency is a word of at most 12 characters, without digits",
        )
    }
}

impl FromStr for Tariff {
    type Err = &'static str;

    /// An amount, and behind it a currency if there is one: `0.004`, `0.004 EUR`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_of_amount = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_of_amount(c)).unwrap_or(text.len());
        let (price, currency) = text.split_at_checked(end).unwrap_or((text, ""));
        let currency = match currency.trim() {
            "" => None,
            currency => Some(currency.parse()?),
        };
        let price = price.parse()?;
        Ok(Self { price, currency })
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Tariff {
    /// The amount with its currency, if it has one: `1,234.50 EUR`.
    #[must_use]
    pub(crate) fn shown(&self, amount: Money) -> String {
        match &self.currency {
            Some(Currency(currency)) => format!("{amount} {currency}"),
            None => amount.to_string(),
        }
    }

    /// What this many calls cost, with the currency.
    #[must_use]
    pub(crate) fn shown_for(&self, calls: u64) -> String {
        self.shown(self.price.of(calls))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap()
    }

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn an_amount_is_shown_with_two_decimals_or_more_and_is_a_number_in_json() {
        for (text, shown, json) in [
            ("0", "0.00", "0.0"),
            ("0.004", "0.004", "0.004"),
            ("12", "12.00", "12.0"),
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
            assert_eq!(serde_json::from_str::<f64>(json).ok(), text.parse().ok());
        }
    }

    #[test]
    fn a_price_may_have_a_currency() {
        let tariff = |text: &str| {
            text.parse::<Tariff>()
                .ok()
                .map(|tariff| tariff.shown_for(2))
        };
        assert_eq!(tariff("0.004").as_deref(), Some("0.008"));
        for text in ["0.004 EUR", "0.004EUR"] {
            assert_eq!(tariff(text).as_deref(), Some("0.008 EUR"));
        }
        for text in [
            "",
            "EUR",
            "EUR 1",
            "0",
            "1 2",
            "0,004",
            "1e3",
            "-1",
            "1 E\u{1b}[1m",
        ] {
            assert_eq!(tariff(text), None, "{text:?}");
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
            "inf",
            "0,004",
            "1 000",
            "1_000",
            "٣",
            "0.0000000001",
            "10000000000",
        ] {
            assert!(bad.parse::<Money>().is_err(), "{bad}");
            assert!(bad.parse::<Price>().is_err(), "{bad}");
        }
        for zero in ["0", "0.000"] {
            assert_eq!(zero.parse::<Price>(), Err("a price is more than 0"));
        }
    }

    #[test]
    fn a_price_times_calls_is_exact_where_doubles_are_not() {
        // 0.1 + 0.2 and 3 * 0.1 are the usual victims.
        assert_eq!(price("0.1").of(3), money("0.3"));
        assert_eq!(price("0.004").of(1_000_000).to_string(), "4,000.00");
        let most = price("9999999999.999999999").of(u64::MAX);
        assert_eq!(
            most.billionths,
            9_999_999_999_999_999_999 * u128::from(u64::MAX)
        );
    }

    #[test]
    fn a_budget_pays_for_whole_calls_rounded_down() {
        for (budget, at, calls) in [
            ("500", "0.004", Some(125_000)),
            ("0.3", "0.1", Some(3)),
            ("0.299999999", "0.1", Some(2)),
            ("0.000000001", "0.000000001", Some(1)),
            ("0.003", "0.004", None),
            ("0", "0.004", None),
            ("9999999999", "0.000000001", Some(9_999_999_999_000_000_000)),
        ] {
            let paid = price(at).calls_for(money(budget));
            assert_eq!(paid, calls.and_then(NonZeroU64::new), "{budget} {at}");
        }
    }

    #[test]
    fn a_currency_is_a_word_that_is_only_shown() {
        let mut tariff = Tariff {
            price: price("0.004"),
            currency: None,
        };
        assert_eq!(tariff.shown_for(250), "1.00");
        for word in ["EUR", "€", "credits"] {
            tariff.currency = Some(word.parse().unwrap());
            assert_eq!(tariff.shown_for(1), format!("0.004 {word}"));
        }
        for bad in [
            "",
            "E U",
            "EUR\n",
            "\u{1b}[2J",
            "\u{202e}",
            "1",
            "abcdefghijklm",
        ] {
            assert!(bad.parse::<Currency>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_budget_is_used_up_to_less_than_a_call(budget in 0..10_u64.pow(18), at in 1..10_u64.pow(12)) {
            let (budget, at) = (
                Money { billionths: budget.into() },
                Price { billionths: NonZeroU128::new(at.into()).unwrap() },
            );
            let calls = at.calls_for(budget).map_or(0, NonZeroU64::get);
            prop_assert!(at.of(calls) <= budget);
            prop_assert!(at.of(calls + 1) > budget);
        }

        #[test]
        fn what_is_written_is_read_again(billionths in 0..10_u128.pow(19)) {
            let amount = Money { billionths };
            let text = amount.to_string().replace(',', "");
            prop_assert_eq!(money(&text), amount);
        }
    }
}
