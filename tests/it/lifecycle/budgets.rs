//! Budgets: never a call too many, over all starts of a run until it has ended.

use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::support::process::Place;
use crate::support::server::{Request, Server, good, silence, status, user};
use crate::support::users;

#[test]
fn max_calls_and_max_cost_are_exact_over_all_starts_with_many_in_flight_and_with_retries() {
    let csv = users::csv(200);
    // 0.3 for 0.1 each is three calls, which doubles do not know; the rest of a cent buys nothing.
    let cost = |cost: &str| format!("--max-cost {cost} --price 0.1");
    let budgets = [
        [75, 75, 150, 225].map(|most| (format!("--max-calls {most}"), most)),
        [("0.3", 3), ("0.299", 3), ("7.59", 75), ("15", 150)].map(|(most, n)| (cost(most), n)),
    ];
    for budgets in budgets {
        let place = Place::with("users.csv", &csv);
        // Every third call fails and is sent again soon.
        let server = Server::start(|request| {
            let answer = match (request.nth % 3, request.attempt) {
                (0, 1) => status(500),
                _ => good(request),
            };
            answer.after(Duration::from_millis(request.nth as u64 % 4))
        });
        for (budget, calls) in &budgets {
            let done = place.score(&server, &*format!("-c 64 {budget}"));
            done.exits(5);
            assert_eq!(server.calls(), *calls, "as many calls as allowed: {done}");
            let (partial, whole) = (place.text("scored.csv.partial"), users::scored(&csv));
            let mut whole = whole.lines();
            let right = partial.lines().all(|line| whole.any(|right| right == line));
            done.check(right && partial.ends_with('\n'), "whole rows in order");
        }
        place.score(&server, "-c 64").exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        // No user with an answer was asked again.
        let requests = server.requests();
        let attempts = requests.iter().map(|request| request.attempt);
        assert_eq!(
            attempts.clone().filter(|attempt| *attempt == 1).count(),
            200
        );
        assert_eq!(attempts.max(), Some(2));
        // The run has ended; the next one has a budget of its own.
        let (budget, most) = &budgets[0];
        let next = format!("{budget} --fresh --overwrite");
        place.score(&server, &*next).exits(5);
        assert_eq!(server.calls(), requests.len() + most);
    }
}

#[test]
fn starts_that_are_killed_spend_no_more_than_the_budget() {
    avoid_midnight();
    for budget in ["--max-calls 90", "--max-calls 90/day"] {
        let (place, server) = (Place::with("users.csv", users::csv(200)), Server::good());
        for kill in 1..=6 {
            let running = place.scoring(&server).args("-c 2").args(budget).start();
            running.kill_when(|| server.calls() >= 12 * kill);
        }
        place.score(&server, budget).exits(5);
        // Calls that a kill may have lost count as made.
        let least = 90 - 6 * 2 * 2;
        assert!((least..=90).contains(&server.calls()), "{}", server.calls());
    }
}

#[test]
fn the_calls_in_flight_of_runs_that_are_gone_count_in_the_budget_of_their_day() {
    avoid_midnight();
    let (place, csv) = (Place::new(), users::csv(300));
    // Only the first call of each run is answered.
    let (server, release) = Server::holding_if(|request| user(request) % 100 != 1);
    let run = |number: usize| {
        let name = format!("{number}.csv");
        place.write(&name, rows(&csv, 100 * number..100 * number + 100));
        let args = format!("{name} -o scored-{name} -c 60 --max-calls 100/day");
        place.run(&server, &*args)
    };
    // What was claimed and not sent before the kill counts as well.
    for (number, calls) in [(0, 61), (1, 70)] {
        let running = run(number).start();
        server.wait_for_calls(calls);
        running.kill_when(|| true);
    }
    drop(release);
    for number in [2, 0, 1] {
        run(number).exits(5);
        assert!((70..=100).contains(&server.calls()), "{}", server.calls());
    }
}

#[test]
fn a_budget_of_money_holds_although_the_price_changes_between_starts() {
    let (place, server) = (Place::with("users.csv", users::csv(60)), Server::good());
    let start = |price: &str, more: &str| {
        let args = format!("-c 4 --price {price} {more}");
        let before = server.calls();
        place.score(&server, &*args).exits(5);
        server.calls() - before
    };
    assert_eq!(start("1", "--max-calls 9"), 9);
    assert_eq!(start("0.1", "--max-cost 10"), 10, "9 are spent");
    assert_eq!(start("0.5", "--max-cost 12"), 4, "10 are spent");
    assert_eq!(start("0.1", "--max-cost 12"), 0, "12 are spent");
}

#[test]
fn the_retries_of_one_row_count_although_each_start_is_killed() {
    let place = Place::with("users.csv", users::csv(1));
    let server = Server::start(|_: &Request| status(500));
    let args = "-c 32 --max-calls 8";
    for kill in 1..=2 {
        let running = place.scoring(&server).args(args).start();
        running.kill_when(|| server.calls() >= 3 * kill);
    }
    place.score(&server, args).exits(5);
    assert_eq!(server.calls(), 8);
}

#[test]
fn a_call_without_an_answer_counts_once_although_it_may_have_been_billed() {
    let place = Place::with("users.csv", users::csv(20));
    let server = Server::start(|request: &Request| match request.nth {
        5 => silence().then_close(),
        _ => good(request),
    });
    place.score(&server, "-c 1 --max-calls 5").exits(5);
    let done = place.score(&server, "-c 1 --max-calls 9");
    done.exits(5).says("may be billed twice");
    assert_eq!(server.calls(), 9);
}

/// A test of a minute is over on the day on which it starts.
pub(super) fn avoid_midnight() {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let left = 86_400 - now % 86_400;
    sleep(Duration::from_secs(if left < 60 { left } else { 0 }));
}

/// The header and these rows.
fn rows(csv: &str, rows: std::ops::Range<usize>) -> String {
    let lines = csv.lines().skip(1 + rows.start).take(rows.len());
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    csv.lines().next().unwrap().to_owned() + "\n" + &lines
}

#[test]
fn a_budget_of_a_day_counts_all_runs_with_the_ledger_and_tells_when_there_is_room() {
    avoid_midnight();
    let (place, server, csv) = (Place::new(), Server::good(), users::csv(12));
    let run = |input: &str, output: &str, more: &str| {
        let args = format!("{input} -o {output} -c 2 --price 0.1 {more}");
        place.run(&server, &*args).done()
    };
    for (number, code) in [(0, 0), (1, 0), (2, 5)] {
        let name = format!("{number}.csv");
        place.write(&name, rows(&csv, 4 * number..4 * number + 4));
        let budget = "--max-cost 1/day --summary s.json";
        let done = run(&name, &format!("scored-{name}"), budget);
        done.exits(code);
    }
    assert_eq!(server.calls(), 10, "1 in all");
    let message = place.json("s.json")["error"]["message"].to_string();
    let used_up = "`--max-cost` is reached: 1.00 of 1.00 used since ";
    assert!(message.contains(used_up) && message.contains("there is room again from "));
    // Now it is known from the start; what is paid for costs nothing; and the other budgets count the same calls.
    let again = run("2.csv", "scored-2.csv", "--max-cost 1/day");
    again.exits(5).says("there is room again from ");
    run("0.csv", "again.csv", "--max-cost 1/day").exits(0);
    run("2.csv", "scored-2.csv", "--max-calls 10/month").exits(5);
    assert_eq!(server.calls(), 10);
    let check = "check 2.csv --json --price 0.1 --max-cost 1.1/month --max-calls 20";
    let check = place.rescore(check).exits(0).json();
    assert_eq!(
        (&check["calls"], &check["calls_left"]),
        (&2.into(), &1.into())
    );
    run("2.csv", "scored-2.csv", "--max-calls 12/day").exits(0);
    assert_eq!(server.calls(), 12);
}

#[test]
fn two_runs_at_once_exceed_the_budget_of_a_day_by_their_calls_on_the_way_at_most() {
    avoid_midnight();
    let (place, csv) = (Place::new(), users::csv(400));
    // Half of the calls bring nothing to be stored.
    let server = Server::start(|request: &Request| {
        let answer = if request.attempt == 1 {
            status(429)
        } else {
            good(request)
        };
        answer.after(Duration::from_millis(2))
    });
    let start = |number: usize| {
        let name = format!("{number}.csv");
        place.write(&name, rows(&csv, 200 * number..200 * number + 200));
        let args = format!("{name} -o scored-{name} -c 4 --max-calls 150/day");
        place.run(&server, &*args).start()
    };
    for run in [0, 1].map(start) {
        run.exits(5);
    }
    // What one of them has claimed and not called yet counts for the other, which may stop before its last call.
    let calls = server.calls();
    assert!((75..=150 + 2 * 3 * 4).contains(&calls), "{calls}");
}

#[test]
fn of_two_budgets_the_smaller_one_stops_the_run_and_is_named() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    for (calls, words, reason) in [
        ("2", "`--max-calls` is reached: 2 of 2 calls", "max_calls"),
        (
            "4",
            "`--max-cost` is reached: 0.012 of 0.012 used",
            "max_cost",
        ),
    ] {
        let args = "--max-cost 0.012 --price 0.004 --summary s.json --max-calls";
        let done = place.scoring(&server).args(args).arg(calls).exits(5);
        done.says(words);
        assert_eq!(place.json("s.json")["stopped"], reason);
    }
    assert_eq!(server.calls(), 3);
}
