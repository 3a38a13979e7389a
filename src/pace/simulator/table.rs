//! Every service with many seeds, beside two baselines, as a Markdown table.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bare_503::bare_503s;
use super::baselines::{Aimd, FixedRate};
use super::case::Case;
use super::cases::{changing, steady, troubled, uneven};
use super::demands::demands;
use super::hidden::hidden;
use super::ours::ours;
use super::uncommon::uncommon;
use super::world::Seen;

/// All services.
pub(super) fn all() -> Vec<Case> {
    [
        steady(),
        changing(),
        troubled(),
        uneven(),
        demands(),
        uncommon(),
        bare_503s(),
    ]
    .concat()
}

/// What to run, from the environment.
struct Settings {
    /// `SIM_CASES`: only services whose names contain one of these, separated by `|`.
    cases: String,
    /// `SIM_SEEDS`: runs of each service.
    seeds: u64,
    /// `SIM_MINUTES`: the most minutes of a run.
    minutes: usize,
    /// `SIM_QUICK=1`: as long as in the everyday tests.
    quick: bool,
    /// `SIM_CEILING`: the most calls in flight.
    ceiling: usize,
    /// `SIM_BASELINES`: runs of each baseline.
    baselines: u64,
}

impl Settings {
    fn read() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let number = |name: &str, usual: usize| {
            text(name).map_or(usual, |text| text.parse().expect("should be a number"))
        };
        Self {
            cases: text("SIM_CASES").unwrap_or_default(),
            seeds: number("SIM_SEEDS", 12) as u64,
            minutes: number("SIM_MINUTES", usize::MAX),
            quick: text("SIM_QUICK").is_some(),
            ceiling: number("SIM_CEILING", usize::MAX),
            baselines: number("SIM_BASELINES", 3) as u64,
        }
    }

    fn wants(&self, case: &Case) -> bool {
        self.cases.split('|').any(|part| case.name.contains(part))
    }
}

/// Who paced a run.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Ours,
    Fixed,
    Aimd,
}

const HEAD: &str = "| service | share, least | mean | worst minute | refused, mean | most | of calls | in flight at the first | s to 90 % of its final pace | most in flight | first 75 s | latency, times alone | rows after s | no verdict | fixed 50/s: share / refused | AIMD: share / refused | seeds that miss |";

/// Runs the services and prints a line for each, and then the expectations that were missed.
fn print(cases: Vec<Case>, settings: &Settings) {
    let cases: Vec<Case> = cases
        .into_iter()
        .filter(|case| settings.wants(case) && !(settings.quick && case.quick == 0))
        .map(|case| {
            let minutes = if settings.quick {
                case.quick
            } else {
                usize::MAX
            };
            case.within(minutes.min(settings.minutes), settings.ceiling)
        })
        .collect();
    println!("{HEAD}");
    println!("|---|{}", "---:|".repeat(HEAD.matches('|').count() - 2));
    let misses = Mutex::new(vec![None; cases.len()]);
    let printed = Mutex::new((0, vec![None; cases.len()]));
    for_each(cases.len(), |place| {
        let case = &cases[place];
        let runs = |who, seeds| -> Vec<Seen> {
            (1..=seeds)
                .map(|seed| match who {
                    Who::Ours => case.run(|| ours(case.ceiling), seed),
                    Who::Fixed => case.run(|| FixedRate::boxed(50.0, 16), seed),
                    Who::Aimd => case.run(|| Aimd::boxed(case.ceiling), seed),
                })
                .collect()
        };
        let own = runs(Who::Ours, settings.seeds);
        let others = [Who::Fixed, Who::Aimd].map(|who| runs(who, settings.baselines));
        let missed: Vec<String> = own.iter().filter_map(|seen| case.missed(seen)).collect();
        if let Some(first) = missed.first() {
            misses.lock().unwrap()[place] = Some(format!("- {}: {first}", case.name));
        }
        let line = line(case, &own, &others, missed.len());
        // In the order of the cases, as soon as all before it are there.
        let (next, lines) = &mut *printed.lock().unwrap();
        lines[place] = Some(line);
        while let Some(line) = lines.get(*next).and_then(Option::as_ref) {
            println!("{line}");
            *next += 1;
        }
    });
    println!("\nMissed, each by the first seed that does:\n");
    for miss in misses.into_inner().unwrap().into_iter().flatten() {
        println!("{miss}");
    }
}

/// Calls `work` with each number below `many`, on all cores.
pub(super) fn for_each(many: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= many {
                        return;
                    }
                    work(place);
                }
            });
        }
    });
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// A share in percent; empty if there is none.
fn percent(share: f64) -> String {
    if !share.is_finite() {
        return String::new();
    }
    format!("{:.1}", share * 100.0)
}

fn line(case: &Case, own: &[Seen], others: &[Vec<Seen>; 2], missed: usize) -> String {
    let all = |value: &dyn Fn(&Seen) -> f64| own.iter().map(value).collect::<Vec<f64>>();
    let shares = all(&|seen| case.share_of(seen));
    let refused = all(&|seen| f64::from(seen.refused));
    let settled = all(&|seen| seen.settled().map_or(f64::NAN, |at| at as f64));
    let latency = case
        .unloaded()
        .map(|alone| mean(own.iter().map(|seen| seen.mean_latency(case.search))) / alone);
    let rows = all(&|seen| seen.rows_after.map_or(f64::INFINITY, |at| at.as_secs_f64()));
    let seconds = case.minutes * 60;
    let other = |seen: &Vec<Seen>| {
        let share = mean(seen.iter().map(|seen| case.share_of(seen)));
        let refused = mean(seen.iter().map(|seen| f64::from(seen.refused)));
        format!("{} / {refused:.0}", percent(share))
    };
    format!(
        "| {} | {} | {} | {} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {:.0} | {} | {} | {} | {:.1} | {} | {} | {} |",
        case.name,
        percent(least(shares.iter().copied())),
        percent(mean(shares.iter().copied())),
        percent(least(all(&Seen::worst_minute).into_iter())),
        mean(refused.iter().copied()),
        most(refused.iter().copied()),
        percent(mean(all(&Seen::refused_share).into_iter())),
        mean(all(&|seen| seen.at_first_refusal as f64).into_iter()),
        mean(settled.into_iter()),
        most(all(&|seen| seen.most_in_flight as f64).into_iter()),
        percent(mean(
            all(&|seen| seen.share(0, 75.min(seconds))).into_iter()
        )),
        latency.map_or(String::new(), |times| format!("{times:.2}")),
        case.rows
            .map_or(String::new(), |_| format!("{:.1}", most(rows.into_iter()))),
        mean(all(&|seen| f64::from(seen.without_verdict)).into_iter()),
        other(&others[0]),
        other(&others[1]),
        if missed == 0 {
            String::new()
        } else {
            format!("{missed} of {}", own.len())
        },
    )
}

#[test]
#[ignore = "takes minutes; `cargo test --release --lib simulator::table -- --ignored --nocapture`"]
fn table_of_all_services() {
    let mut cases = all();
    if std::env::var_os("SIM_HIDDEN").is_some() {
        cases.extend(hidden());
    }
    print(cases, &Settings::read());
}
