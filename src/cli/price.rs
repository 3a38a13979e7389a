//! The arguments that say what a call costs. Every command that counts calls has them.

use clap::Args;

use super::sources::Sources;
use super::values;
use crate::base::error::{Error, Result};
use crate::base::money::{Currency, Price, Tariff};

/// Their heading in the help, and that of the limits of a run.
pub(super) const PACE: &str = "Pace and limits";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct PriceArgs {
    /// What a call costs, such as `0.004`, to show what is spent and saved
    #[arg(long, value_name = "AMOUNT", value_parser = values::price, allow_negative_numbers = true, help_heading = PACE)]
    price: Option<Price>,
    /// The currency of the price, which is only shown
    #[arg(long, value_name = "WORD", value_parser = values::currency, help_heading = PACE)]
    currency: Option<Currency>,
}

impl PriceArgs {
    /// Fails if there is a currency and no price. To clap itself, a price in the settings file is a default, which does not
    /// count.
    pub(super) fn check(&self, sources: Sources<'_>) -> Result<()> {
        if self.price.is_none() && sources.is_given("currency") {
            return Err(Error::usage("`--currency` needs the price of a call")
                .hint("add it, as in `--price 0.004`"));
        }
        Ok(())
    }

    /// What calls cost; `None` without `--price`.
    pub(super) fn tariff(&self) -> Option<Tariff> {
        let currency = self.currency.clone();
        self.price.map(|price| Tariff { price, currency })
    }
}
