//! The course of a case: its starts one after the other, what is checked after each, and the bytes and the bill at the end.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant, SystemTime};

use crate::support::process::{Done, KEY, LEDGER, Place, Program};

use super::case::{Case, Event, PERSON, UserFile};
use super::service::{Service, paid_twice, resent_after_loss};

/// How many undisturbed starts may be needed: a service that was down, or that looked as if it refused everybody, stops a run.
const LAST_STARTS: usize = 6;
/// All exit codes of `run` but that of a bug.
const CODES: [i32; 9] = [0, 1, 2, 3, 4, 5, 75, 130, 143];
const HUNG_UP: i32 = 129;

/// What was tried.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) cases: u64,
    starts: usize,
    kills: usize,
    signals: usize,
    full_disks: usize,
    calls: usize,
    faults: usize,
    rows: usize,
    /// Verdicts that were sent twice for a user, which only kills may cause.
    paid_twice: usize,
    /// How many the starts said, at most.
    paid_twice_said: usize,
    /// How many the kills might have cost, by the promise.
    paid_twice_at_most: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.starts += other.starts;
        self.kills += other.kills;
        self.signals += other.signals;
        self.full_disks += other.full_disks;
        self.calls += other.calls;
        self.faults += other.faults;
        self.rows += other.rows;
        self.paid_twice += other.paid_twice;
        self.paid_twice_said += other.paid_twice_said;
        self.paid_twice_at_most += other.paid_twice_at_most;
    }
}

/// Tries one case, which panics if a promise is broken.
pub(super) fn torture(seed: u64) -> Tally {
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
        told: format!("TORTURE_SEED={seed}"),
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
    /// What was done so far, for a failure.
    told: String,
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
        let mut args: Vec<_> = case.files.iter().map(|file| file.name.clone()).collect();
        args.insert(0, "run".to_owned());
        let output = if case.in_directory {
            ["--output-dir".to_owned(), "scored".to_owned()]
        } else {
            ["-o".to_owned(), case.output_of(&case.files[0])]
        };
        args.extend(output);
        args.extend(case.options.iter().cloned());
        let concurrency = case.concurrency;
        let fixed = format!(
            "--service-id test --api-key-file key -c {concurrency} --base-url {} --summary summary-{nth}.json",
            self.service.server.url()
        );
        let program = self.place.rescore(args).args(&*fixed);
        if case.has_ledger {
            program
        } else {
            program.arg("--no-ledger")
        }
    }

    /// One start, and what happens to it.
    fn start(&mut self, event: Event) {
        let (before, nth) = (self.service.calls(), self.tally.starts);
        self.told += &format!("\nstart {nth}: {event:?}");
        let limited = |program: Program<'a>| match self.case.max_calls {
            Some(most) => program.args(["--max-calls".to_owned(), most.to_string()]),
            None => program,
        };
        let mut program = limited(self.command(nth));
        let second = limited(self.command(nth + 1));
        match event {
            Event::Part(rows) => program = program.args(["--limit".to_owned(), rows.to_string()]),
            Event::FullDisk(blocks) => {
                let script = format!("ulimit -f {blocks}\nexec \"$@\"\n");
                self.place.write("limited.sh", script);
                program = program.under(&["sh", "limited.sh"]);
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
                self.tally.kills += 1;
                self.tally.paid_twice_at_most += 2 * self.case.concurrency;
            }
            (Event::Signal(..), Some(HUNG_UP | 130 | 143)) => self.tally.signals += 1,
            (Event::FullDisk(_), Some(3)) => self.tally.full_disks += 1,
            _ => {}
        }
    }

    /// What holds after every start.
    fn check_start(&mut self, done: &Done, before: usize, event: Event) {
        self.told += &format!("\n{done}");
        self.tally.starts += 1;
        let (code, case) = (done.code(), self.case);
        let is_documented = code.is_some_and(|code| CODES.contains(&code) || code == HUNG_UP);
        // A signal may come before the program listens for it.
        let was_killed = code.is_none() && matches!(event, Event::Kill(..) | Event::Signal(..));
        self.check(is_documented || was_killed, "an exit code of the documents");
        let said = done.printed() + &done.stderr;
        let shown =
            |text: &str| text.to_lowercase().contains(&PERSON.to_lowercase()) || text.contains(KEY);
        self.check(!shown(&said), "a message has a person or the key");
        for file in ["log.jsonl", "run.prom"] {
            let text = fs::read_to_string(self.place.path(file)).unwrap_or_default();
            self.check(!shown(&text), file);
        }
        for file in &case.files {
            let content = file.content(case.form, case.is_packed);
            self.check(
                self.place.read(&file.name) == content,
                "an input was changed",
            );
            let left = self.output(file);
            let may_be_left = left.is_none_or(|text| self.case.may_be_left(file, &text));
            self.check(may_be_left, "an output that no run may leave");
        }
        if !matches!(event, Event::Part(_)) && code.is_some_and(|code| code < 2) {
            self.may_be_finished = true;
        }
        if let (Some(most), false) = (case.max_calls, self.may_be_finished || self.has_lost_ledger)
        {
            let calls = self.service.calls();
            self.check(calls <= most, &format!("{calls} calls, of {most} at most"));
        }
        self.add_what_was_said(&done.stderr, before, matches!(event, Event::Twice));
    }

    /// Adds how many answers may be paid for twice, as the start says itself: at its end, or if it was killed, at its beginning.
    fn add_what_was_said(&mut self, stderr: &str, before: usize, is_one_of_two: bool) {
        let name = format!("summary-{}.json", self.tally.starts - 1);
        let Ok(text) = fs::read_to_string(self.place.path(&name)) else {
            let left = stderr.split("killed runs left ").nth(1);
            let left = left.and_then(|left| left.split(' ').next());
            let left = left.map(|left| left.replace(',', "").parse::<usize>().unwrap());
            self.tally.paid_twice_said += left.unwrap_or(0);
            return;
        };
        self.check(!text.contains(PERSON) && !text.contains(KEY), &name);
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |key| usize::try_from(summary["calls"][key].as_u64().unwrap()).unwrap();
        let (said, lost) = (number("maybe_billed_twice"), number("lost"));
        let resent = resent_after_loss(&self.service.calls_since(before));
        let words = format!("{said} said to be billed twice at most, {resent} were asked again");
        self.check(said >= resent || is_one_of_two, &words);
        self.tally.paid_twice_said += said;
        // Where no file may grow, what it reserved is of no use: these answers are paid for again.
        self.tally.paid_twice_at_most += lost;
    }

    /// Undisturbed starts until the output is complete, and then its bytes and the bill.
    fn end(&mut self) {
        self.service.calm_down();
        let (mut first, mut is_refused) = (0, false);
        let had_full_disk = self
            .case
            .history
            .iter()
            .any(|it| matches!(it, Event::FullDisk(_)));
        for nth in 0.. {
            self.check(nth < LAST_STARTS, "undisturbed starts do not end");
            let before = self.service.calls();
            let mut program = self.command(self.tally.starts);
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
                let failed = self.case.rows_without_verdict();
                self.check(
                    (code == 1) == (failed > 0),
                    &format!("{failed} rows without a verdict"),
                );
                break;
            }
        }
        for file in &self.case.files {
            self.check_output(file);
        }
        let names = self.place.names();
        let left = names
            .iter()
            .find(|name| name.contains(".partial") || name.contains(".lock"));
        self.check(left.is_none(), "a file was left");
        let calls = self.service.calls_since(first);
        let Tally {
            paid_twice_said: said,
            paid_twice_at_most: at_most,
            ..
        } = self.tally;
        // Without the ledger of all starts, the last one counts, which was undisturbed.
        let most = if first > 0 { 0 } else { said.min(at_most) };
        let twice = paid_twice(&calls);
        let words = format!("{twice} paid twice, {said} said, {at_most} promised at most");
        self.check(twice <= most, &words);
        self.tally.paid_twice = twice;
        self.check(
            self.service.has_only_users(),
            "a user was sent who is in no file",
        );
        self.tally.cases = 1;
        self.tally.calls = self.service.calls();
        let faulty = self.service.calls_since(0);
        self.tally.faults = faulty.iter().filter(|call| !call.is_answered()).count();
        self.tally.rows = self.case.files.iter().map(UserFile::rows).sum();
    }

    /// The output of this file without its compression, if it has its name.
    fn output(&self, file: &UserFile) -> Option<String> {
        let bytes = fs::read(self.place.path(&self.case.output_of(file))).ok()?;
        let mut text = String::new();
        let read = if self.case.is_packed {
            flate2::read::MultiGzDecoder::new(&*bytes).read_to_string(&mut text)
        } else {
            (&*bytes).read_to_string(&mut text)
        };
        self.check(read.is_ok(), "the output is not text, or not whole");
        Some(text)
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
        let files = self.ledger_files().into_iter();
        self.kept = files
            .map(|name| (name.clone(), self.place.read(&name)))
            .collect();
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
                .open(self.place.path(&file.name))
                .unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60))
                .unwrap();
        }
    }
}
