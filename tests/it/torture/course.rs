//! The course of a case: its starts one after the other, what is checked after each, and the bytes and the bill at the end.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::support::process::{Done, KEY, LEDGER, Place, Program};

use super::case::{Case, Event, PERSON, UserFile};
use super::service::{NOBODY, Service, paid_twice, resent_after_loss};

/// How many undisturbed starts may be needed: a service that was down, or that looked as if it refused everybody, stops a run.
const LAST_STARTS: usize = 6;
/// All exit codes of `run` but that of a bug.
const CODES: [i32; 9] = [0, 1, 2, 3, 4, 5, 75, 130, 143];
const HUNG_UP: i32 = 129;

/// How much was tried, by what it is.
pub(super) type Tally = BTreeMap<&'static str, usize>;

/// Tries one case, which panics if a promise is broken.
pub(super) fn torture(seed: u64, wrong_clock: &Path) -> Tally {
    let case = Case::of(seed);
    let place = Place::new();
    place.write("key", KEY);
    fs::set_permissions(place.path("key"), Permissions::from_mode(0o600)).unwrap();
    if case.in_directory {
        fs::create_dir(place.path("scored")).unwrap();
    }
    for file in &case.files {
        place.write(&file.name, file.content(case.form, case.is_packed));
    }
    let service = Service::start(case.faults.clone());
    let mut course = Course {
        case: &case,
        place: &place,
        service: &service,
        wrong_clock,
        told: format!("TORTURE_SEED={seed}"),
        starts: 0,
        tally: Tally::default(),
        kept: Vec::new(),
        has_lost_ledger: false,
        may_be_finished: false,
    };
    for event in &case.history {
        course.start(*event);
    }
    course.end();
    service.server.end();
    course.tally
}

struct Course<'a> {
    case: &'a Case,
    place: &'a Place,
    service: &'a Service,
    /// The library that makes a program's clock wrong.
    wrong_clock: &'a Path,
    /// What was done so far, for a failure.
    told: String,
    starts: usize,
    tally: Tally,
    /// The ledger's files before the last start.
    kept: Vec<(String, Vec<u8>)>,
    /// Answers that were paid for are gone, so that users may be paid for again.
    has_lost_ledger: bool,
    /// A start has completed the output, so that the budget of calls is that of another run.
    may_be_finished: bool,
}

impl<'a> Course<'a> {
    #[track_caller]
    fn check(&self, right: bool, what: &str) {
        assert!(right, "{what}\n{}", self.told);
    }

    /// The command as its start number `nth`, without what differs between its starts otherwise.
    fn command(&self, nth: usize) -> Program<'a> {
        let case = self.case;
        let mut args = vec!["run".to_owned()];
        args.extend(case.files.iter().map(|file| file.name.clone()));
        args.extend(case.options.iter().cloned());
        let output = if case.in_directory {
            "--output-dir scored".to_owned()
        } else {
            format!("-o {}", case.output_of(&case.files[0]))
        };
        let ledger = if case.has_ledger { "" } else { "--no-ledger" };
        let (concurrency, url) = (case.concurrency, self.service.server.url());
        let fixed = format!(
            "{output} {ledger} --service-id test --api-key-file key -c {concurrency} --base-url {url} --summary summary-{nth}.json"
        );
        self.place.rescore(args).args(&*fixed)
    }

    fn add(&mut self, what: &'static str, number: usize) {
        *self.tally.entry(what).or_default() += number;
    }

    /// One start, and what happens to it.
    fn start(&mut self, event: Event) {
        let (before, nth) = (self.service.calls(), self.starts);
        self.told += &format!("\nstart {nth}: {event:?}");
        let mut program = self.command(nth).args(self.case.first_options.clone());
        let second = self.command(nth + 1).args(self.case.first_options.clone());
        match event {
            Event::Part(part) => program = program.args(part),
            Event::WrongClock(seconds, millis) => {
                let wrong = format!("{seconds},{millis}");
                program = program
                    .env("WRONG_CLOCK", wrong)
                    .env("LD_PRELOAD", self.wrong_clock);
            }
            Event::FullDisk(blocks) => {
                let under = &["sh", "-c", "ulimit -f $BLOCKS; exec \"$0\" \"$@\""];
                program = program.env("BLOCKS", blocks.to_string()).under(under);
            }
            Event::OutOfTime => program = program.args("--max-time 1s"),
            Event::Touched => self.touch(),
            Event::LostLedger => self.lose_ledger(),
            _ => {}
        }
        self.keep_ledger();
        let running = program.start();
        let (service, began) = (self.service, Instant::now());
        let has_come = |calls: usize| move || service.calls() >= before.saturating_add(calls);
        let done = match event {
            Event::Kill(calls, micros) => {
                let has_come = has_come(calls);
                running.kill_when(|| has_come() || began.elapsed() >= Duration::from_micros(micros))
            }
            Event::Signal(name, calls) => running.stop_when(name, has_come(calls)),
            Event::StandStill(calls, millis) => {
                let running = running.paused_when(has_come(calls), Duration::from_millis(millis));
                running.done()
            }
            Event::Twice => {
                let second = second.start();
                self.check_start(&running.done(), before, event);
                second.done()
            }
            _ => running.done(),
        };
        self.check_start(&done, before, event);
        match (event, done.code()) {
            (Event::Kill(..), None) => {
                self.add("kills", 1);
                self.add("paid_twice_promised", 2 * self.case.concurrency);
            }
            (Event::Signal(..), Some(HUNG_UP | 130 | 143)) => self.add("signals", 1),
            (Event::FullDisk(_), Some(3)) => self.add("full_disks", 1),
            (Event::WrongClock(..), Some(_)) => self.add("wrong_clocks", 1),
            _ => {}
        }
    }

    /// The name of the summary of the last start.
    fn summary(&self) -> String {
        format!("summary-{}.json", self.starts - 1)
    }

    /// What holds after every start.
    fn check_start(&mut self, done: &Done, before: usize, event: Event) {
        self.told += &format!("\n{done}");
        self.starts += 1;
        let (code, case) = (done.code(), self.case);
        let is_documented = code.is_some_and(|code| CODES.contains(&code) || code == HUNG_UP);
        // A signal may come before the program listens for it.
        let was_killed = code.is_none() && matches!(event, Event::Kill(..) | Event::Signal(..));
        self.check(is_documented || was_killed, "an exit code of the documents");
        let mut said = done.printed() + &done.stderr;
        for file in ["log.jsonl", "run.prom", &self.summary()] {
            said += &fs::read_to_string(self.place.path(file)).unwrap_or_default();
        }
        let has_person = said.to_lowercase().contains(&PERSON.to_lowercase());
        let is_clean = !has_person && !said.contains(KEY);
        self.check(is_clean, "a person or the key is shown");
        for file in &case.files {
            let is_same = self.place.read(&file.name) == file.content(case.form, case.is_packed);
            self.check(is_same, "an input was changed");
            let left = self.output(file);
            let may_be_left = left.is_none_or(|text| self.case.may_be_left(file, &text));
            self.check(may_be_left, "an output that no run may leave");
        }
        let is_part = matches!(event, Event::Part(_));
        self.may_be_finished |= !is_part && code.is_some_and(|code| code < 2);
        let has_same_budget = !self.may_be_finished && !self.has_lost_ledger;
        let most = case.max_calls.filter(|_| has_same_budget);
        let (calls, most) = (self.service.calls(), most.unwrap_or(usize::MAX));
        self.check(calls <= most, &format!("{calls} calls, of {most} at most"));
        self.add_what_was_said(&done.stderr, before, event);
    }

    /// Adds how many answers may be paid for twice, as the start says itself: at its end, or if it was killed, at its beginning.
    fn add_what_was_said(&mut self, stderr: &str, before: usize, event: Event) {
        let left = stderr.split_once("killed runs left ");
        let left = left.and_then(|(_, left)| left.split(' ').next());
        let left = left.map_or(0, |left| left.replace(',', "").parse().unwrap());
        let Ok(text) = fs::read_to_string(self.place.path(&self.summary())) else {
            return self.add("paid_twice_said", left);
        };
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |key| usize::try_from(summary["calls"][key].as_u64().unwrap()).unwrap();
        let (mut said, lost) = (number("maybe_billed_twice"), number("lost"));
        let resent = resent_after_loss(&self.service.calls_since(before));
        match event {
            // The summary of a sample in rounds is that of the last round.
            Event::Part(part) if part.contains("auto") => said = left + said.max(resent),
            // The other start may have sent it.
            Event::Twice => {}
            _ => {
                let words = format!("{resent} asked again, of {said} at most that were said");
                self.check(resent <= said, &words);
            }
        }
        self.add("paid_twice_said", said);
        // Where no file may grow, what it reserved is of no use: these answers are paid for again.
        self.add("paid_twice_promised", lost);
    }

    /// Undisturbed starts until the output is complete, and then its bytes and the bill.
    fn end(&mut self) {
        self.service.calm_down();
        let (mut first, mut is_refused) = (0, false);
        let had_full_disk = self.case.has(|it| matches!(it, Event::FullDisk(_)));
        for nth in 0.. {
            self.check(nth < LAST_STARTS, "undisturbed starts do not end");
            let before = self.service.calls();
            let mut program = self.command(self.starts);
            let options = match (self.case.has_ledger, self.has_lost_ledger) {
                (true, false) => "--retry-failed",
                // Verdicts that are not in the ledger are paid for again only if that is asked for.
                (true, true) => "--fresh --overwrite",
                (false, _) => "--overwrite",
            };
            if options != "--retry-failed" {
                first = before;
            } else if is_refused {
                // A full disk can keep a run from recording how it left its files, which are then only replaced by request.
                program = program.arg("--overwrite");
            }
            program = program.args(options);
            self.told += &format!("\nundisturbed start {nth}");
            let done = program.done();
            self.check_start(&done, before, Event::Nothing);
            is_refused = had_full_disk && done.code() == Some(2);
            if let Some(code @ 0..2) = done.code() {
                let is_right = (code == 1) == self.case.has_failures();
                self.check(is_right, "an exit code that does not fit the rows");
                break;
            }
        }
        for file in &self.case.files {
            self.check_output(file);
        }
        let changes = fs::read_to_string(self.place.path("changes.txt")).unwrap_or_default();
        let is_none = changes.lines().count() <= self.case.head_lines();
        self.check(is_none, "a verdict never changes");
        let is_left = |name: &String| name.contains(".partial") || name.contains(".lock");
        let left = self.place.names().into_iter().find(is_left);
        self.check(left.is_none(), "a file was left");
        let [said, at_most] = ["paid_twice_said", "paid_twice_promised"]
            .map(|what| self.tally.get(what).copied().unwrap_or_default());
        // Without the ledger of all starts, the last one counts, which was undisturbed.
        let most = if first > 0 { 0 } else { said.min(at_most) };
        let twice = paid_twice(&self.service.calls_since(first));
        let words = format!("{twice} paid twice, {said} said, {at_most} promised at most");
        self.check(twice <= most, &words);
        self.add("paid_twice", twice);
        self.add("cases", 1);
        self.add("starts", self.starts);
        let calls = self.service.calls_since(0);
        let has_only_users = calls.iter().all(|call| call.user != NOBODY);
        self.check(has_only_users, "a user was sent who is in no file");
        self.add("calls", calls.len());
        let faults = calls.iter().filter(|call| !call.is_answered());
        self.add("faults", faults.count());
        self.add(
            "rows",
            self.case.files.iter().map(|file| file.rows.len()).sum(),
        );
    }

    /// The output of this file without its compression, if it has its name.
    fn output(&self, file: &UserFile) -> Option<String> {
        let bytes = fs::read(self.place.path(&self.case.output_of(file))).ok()?;
        let text = if self.case.is_packed {
            std::io::read_to_string(flate2::read::MultiGzDecoder::new(&*bytes))
        } else {
            std::io::read_to_string(&*bytes)
        };
        self.check(text.is_ok(), "the output is not text, or not whole");
        text.ok()
    }

    fn check_output(&self, file: &UserFile) {
        let (text, expected) = (self.output(file).unwrap(), self.case.expected(file));
        let mut lines = text.lines().zip(expected.lines());
        let differs = lines.find(|(is, should)| is != should);
        let words = format!("`{}` is not as expected: {differs:?}", file.name);
        self.check(text == expected, &words);
    }

    fn ledger_files(&self) -> Vec<String> {
        let names = self.place.names().into_iter();
        names.filter(|name| name.starts_with(LEDGER)).collect()
    }

    fn keep_ledger(&mut self) {
        let whole = |name: String| (name.clone(), self.place.read(&name));
        self.kept = self.ledger_files().into_iter().map(whole).collect();
    }

    fn lose_ledger(&mut self) {
        self.has_lost_ledger = true;
        for name in self.ledger_files() {
            fs::remove_file(self.place.path(&name)).unwrap();
        }
        for (name, content) in &self.kept {
            self.place.write(name, content);
        }
    }

    fn touch(&self) {
        for file in &self.case.files {
            let file = File::options()
                .write(true)
                .open(self.place.path(&file.name));
            let before = SystemTime::now() - Duration::from_secs(60);
            file.unwrap().set_modified(before).unwrap();
        }
    }
}
