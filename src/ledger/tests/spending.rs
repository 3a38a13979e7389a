//! What is counted of calls and money, by run and by account, through kills and changes of the
//! price.

use std::slice;

use super::support::*;
use crate::ledger::accounts::{Budget, Per};

#[test]
fn the_calls_of_an_account_are_counted_with_those_that_killed_starts_may_have_made() {
    for ledger in ledgers() {
        let ten = Budget::calls(10.try_into().unwrap(), Per::Day);
        let of_service = |id: &str, output: &str, budgets: &[Budget]| {
            let mut settings = settings(&ledger.path, output, Reuse::All);
            settings.budgets = budgets.to_vec();
            settings.account.as_mut().unwrap().service_id = id.to_owned();
            Run::start_with(&settings).unwrap()
        };
        let left = |run: &Run| ten.left(&run.facts.run.spending);
        let mut first = of_service("test", "a.csv", &[]);
        first.claim(&[11, 12, 13]);
        let limited = || of_service("test", "b.csv", slice::from_ref(&ten));
        let mut second = limited();
        assert_eq!(left(&second), 7, "also what was spent without a budget");
        first.leave(2);
        second.claim(&[1, 2]);
        second.end_call(2, Unanswered::Again);
        // It is killed, twice, and what it had claimed is counted once, with another call for one
        // of them.
        drop(limited());
        let mut third = limited();
        third.renew().unwrap();
        assert_eq!(left(&third), 10 - 2 - 3);
        third.claim(&[1, 2, 3]);
        third.end_call(3, Unanswered::NotMade);
        third.leave(1);
        assert_eq!(left(&limited()), 10 - 2 - 3 - 1);
        let other = of_service("other", "c.csv", slice::from_ref(&ten));
        assert_eq!(left(&other), 10);
    }
}

#[test]
fn an_answer_keeps_the_price_of_its_run() {
    for ledger in ledgers() {
        let start = |price: &str| {
            let mut settings = settings(&ledger.path, "a.csv", Reuse::All);
            settings.price = price.parse().unwrap();
            Run::start_with(&settings).unwrap()
        };
        for (price, request) in [("0.5", 1), ("0", 2), ("1.5", 3)] {
            let mut run = start(price);
            run.keep(&[(request, answer(request)), (request + 10, failure())]);
        }
        let found = start("7").look_up(&[1, 2, 3, 11, 4]);
        let prices = found.iter().map(|found| found.payment.price.to_string());
        let prices: Vec<_> = prices.collect();
        assert_eq!(prices, ["0.50", "0.00", "1.50", "0.00", "0.00"]);
    }
}

#[test]
fn a_budget_of_a_run_keeps_the_money_that_its_calls_have_cost() {
    for ledger in ledgers() {
        let start = |price: &str| {
            let mut settings = settings(&ledger.path, "a.csv", Reuse::All);
            settings.price = price.parse().unwrap();
            Run::start_with(&settings).unwrap()
        };
        let left = |run: &Run| {
            let tariff = "1".parse().unwrap();
            let ten = Budget::cost("10".parse().unwrap(), Per::Run, Some(&tariff));
            ten.unwrap().left(&run.facts.run.spending)
        };
        // What was made without a price has the one that is given first.
        for (price, requests, expected) in [
            ("0", [1, 2], 10),
            ("0.5", [3, 4], 10 - 2),
            ("1.5", [5, 6], 10 - 2),
            ("1", [7, 8], 10 - 5),
            ("0", [9, 10], 10 - 7),
            ("1", [11, 12], 0),
        ] {
            let mut run = start(price);
            assert_eq!(left(&run), expected, "{price}");
            run.claim(&requests);
        }
    }
}
