//! The arguments that say what a call costs. Every command that counts calls has them.

use clap::Args;

use super::values;
use crate::base::money::{Currency, Price, Tariff};

/// Their heading in the help.
pub(super) const COST: &str = "Cost";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct PriceArgs {
    /// What a call costs, such as `0.004`: progress and summary show what is spent and saved
    #[arg(long, value_name = "AMOUNT", value_parser = values::price, allow_negative_numbers = true, help_heading = COST)]
    price: Option<Price>,
    /// The currency of the price, which is only shown
    #[arg(long, value_name = "WORD", value_parser = values::currency, requires = "price", help_heading = COST)]
    currency: Option<Currency>,
}

impl PriceArgs {
    /// What calls cost; `None` without `--price`.
    pub(super) fn tariff(&self) -> Option<Tariff> {
        let currency = self.currency.clone();
        self.price.map(|price| Tariff { price, currency })
    }
}
