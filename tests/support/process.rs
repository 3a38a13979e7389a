//! Runs the real program in a directory of its own, and reports everything about a run that failed its test.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::server::Server;

/// The key that runs use. It must never appear anywhere else.
pub(crate) const KEY: &str = "test-key";

/// The ledger of all commands in a place.
pub(crate) const LEDGER: &str = "rescore.ledger";

/// A run that takes longer counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// The arguments of a command: a line as a person types it, or a list, where one of them has a blank or is computed.
/// `Kind` only tells the two apart.
pub(crate) trait Arguments<Kind> {
    fn list(self) -> Vec<OsString>;
}

pub(crate) struct Line;

pub(crate) struct List;

impl Arguments<Line> for &str {
    fn list(self) -> Vec<OsString> {
        self.split_whitespace().map(OsString::from).collect()
    }
}

impl<L: IntoIterator<Item: Into<OsString>>> Arguments<List> for L {
    fn list(self) -> Vec<OsString> {
        self.into_iter().map(Into::into).collect()
    }
}

/// A temporary directory with the files of one test.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A directory with one file, which is all that most tests need.
    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let place = Self::new();
        place.write(name, content);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name))
            .unwrap_or_else(|e| panic!("`{name}`: {e}; there are {:?}", self.names()))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    /// The names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// `rescore` with exactly these arguments, and in its environment only `PATH` and a ledger in this directory: the one that is
    /// used where none is named would be refused where tests run in a container.
    pub(crate) fn rescore<K>(&self, args: impl Arguments<K>) -> Program<'_> {
        Program {
            place: self,
            server: None,
            args: args.list(),
            env: vec![("RESCORE_LEDGER", LEDGER.into())],
            stdin: Vec::new(),
            stdin_from: None,
            stdout: None,
            stderr: None,
            under: &[],
        }
    }

    /// `rescore run` with a key, against a server, with these arguments.
    pub(crate) fn run<'a, K>(&'a self, server: &'a Server, args: impl Arguments<K>) -> Program<'a> {
        let run = self.rescore("run --service-id test --rate unlimited --base-url");
        let mut program = run.arg(server.url()).env("RESCORE_API_KEY", KEY);
        program.server = Some(server);
        program.args(args)
    }

    /// `users.csv` to `scored.csv` with a key, against any address, without further settings.
    pub(crate) fn run_at(&self, url: impl Into<OsString>) -> Program<'_> {
        let run = self.rescore("run users.csv -o scored.csv --service-id test --base-url");
        let program = run.arg(url);
        program.env("RESCORE_API_KEY", KEY)
    }

    /// A run of `users.csv` to `scored.csv`.
    pub(crate) fn scoring<'a>(&'a self, server: &'a Server) -> Program<'a> {
        self.run(server, "users.csv -o scored.csv")
    }

    /// What most tests do: score `users.csv` to `scored.csv`, to the end.
    pub(crate) fn score<K>(&self, server: &Server, args: impl Arguments<K>) -> Done {
        self.scoring(server).args(args).done()
    }
}

/// The program, not yet started.
pub(crate) struct Program<'a> {
    place: &'a Place,
    server: Option<&'a Server>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    stdin_from: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    under: &'static [&'static str],
}

impl<'a> Program<'a> {
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<K>(mut self, args: impl Arguments<K>) -> Self {
        self.args.extend(args.list());
        self
    }

    /// Sets a variable; the last one given counts.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| *known != name);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Where standard input comes from instead of from the test.
    pub(crate) fn stdin_from(mut self, from: impl Into<Stdio>) -> Self {
        self.stdin_from = Some(from.into());
        self
    }

    /// Runs it through another program that takes a command as its arguments.
    pub(crate) fn under(mut self, command: &'static [&'static str]) -> Self {
        self.under = command;
        self
    }

    /// Where standard output goes instead of to the test.
    pub(crate) fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    /// Where standard error goes instead of to the test, which then sees none of it.
    pub(crate) fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.stderr = Some(to.into());
        self
    }

    pub(crate) fn done(self) -> Done {
        self.start().done()
    }

    /// Runs it to its end, which must have this exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Done {
        self.start().exits(code)
    }

    pub(crate) fn start(self) -> Running<'a> {
        const RESCORE: &str = env!("CARGO_BIN_EXE_rescore");
        let whole = [self.under, &[RESCORE]].concat();
        let mut command = Command::new(whole[0]);
        command
            .args(&whole[1..])
            .args(&self.args)
            .current_dir(self.place.0.path())
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(self.env)
            .stdin(self.stdin_from.unwrap_or_else(Stdio::piped))
            .stdout(self.stdout.unwrap_or_else(Stdio::piped))
            .stderr(self.stderr.unwrap_or_else(Stdio::piped));
        let told = format!("{command:?}\nin {}", self.place.0.path().display());
        heed_hang_ups();
        let mut child = command.spawn().unwrap();
        // One thread for each stream, so that a full pipe never blocks the program. It need not read all of its input.
        if let Some(mut stdin) = child.stdin.take() {
            thread::spawn(move || stdin.write_all(&self.stdin));
        }
        let stdout = child.stdout.take().map(Gathered::start);
        let stderr = child.stderr.take().map(Gathered::start);
        Running {
            child: KilledOnDrop(child),
            began: Instant::now(),
            told,
            server: self.server,
            place: self.place,
            stdout,
            stderr,
        }
    }
}

/// A process that ends with its test, also where that fails.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program while it runs.
pub(crate) struct Running<'a> {
    child: KilledOnDrop,
    began: Instant,
    told: String,
    server: Option<&'a Server>,
    place: &'a Place,
    stdout: Option<Gathered>,
    stderr: Option<Gathered>,
}

impl Running<'_> {
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.unwrap().success(), "{kill}");
    }

    /// Sends a signal until the process has ended: one that comes shortly after another signal changes nothing.
    pub(crate) fn signal_until_it_ends(mut self, name: &str) -> Done {
        while !self.has_ended() {
            self.fail_if_it_hangs("the end after a signal");
            // It is there as a zombie until its end is asked for.
            self.signal(name);
            thread::sleep(Duration::from_millis(50));
        }
        self.done()
    }

    pub(crate) fn wait_for_file(&self, name: &str, ready: impl Fn(&[u8]) -> bool) {
        let path = self.place.path(name);
        self.wait_until(name, || {
            fs::read(&path).is_ok_and(|content| ready(&content))
        });
    }

    pub(crate) fn wait_for_words(&self, words: &str) {
        self.wait_until(words, || self.said().contains(words));
    }

    pub(crate) fn said(&self) -> String {
        let said = self.stderr.as_ref().map(Gathered::so_far);
        String::from_utf8_lossy(&said.unwrap_or_default()).into_owned()
    }

    /// Waits until this field of its process status is as expected.
    pub(crate) fn wait_for_status(&self, word: &str, ready: impl Fn(&str) -> bool) {
        self.wait_until(word, || {
            self.status(word).is_some_and(|value| ready(&value))
        });
    }

    pub(crate) fn wait_until(&self, what: &str, ready: impl Fn() -> bool) {
        while !ready() {
            self.fail_if_it_hangs(what);
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn fail_if_it_hangs(&self, what: &str) {
        let (told, said) = (&self.told, self.said());
        let hangs = self.began.elapsed() > HANGS;
        assert!(!hangs, "`{what}` never came\n{told}\n{said}");
    }

    /// Its process id, as other runs name it.
    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Its peak memory so far in KiB, if the system reports it.
    pub(crate) fn peak_memory(&self) -> Option<usize> {
        self.status("VmHWM:")?.strip_suffix(" kB")?.parse().ok()
    }

    /// This field of its process status, if the system has it.
    pub(crate) fn status(&self, word: &str) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let value = status.lines().find_map(|line| line.strip_prefix(word))?;
        Some(value.trim().to_owned())
    }

    /// Kills it with SIGKILL as soon as `ready` holds; it may have ended before.
    pub(crate) fn kill_when(mut self, ready: impl Fn() -> bool) -> Done {
        while !self.has_ended() && !ready() {
            self.fail_if_it_hangs("the moment of the kill");
            thread::sleep(Duration::from_micros(200));
        }
        self.child.0.kill().unwrap();
        self.done()
    }

    /// Sends this signal as soon as `ready` holds, unless it has ended before.
    pub(crate) fn stop_when(mut self, name: &str, ready: impl Fn() -> bool) -> Done {
        if self.is_there_when(ready) {
            self.signal(name);
        }
        self.done()
    }

    /// Lets it stand still for a while as soon as `ready` holds, unless it has ended before.
    pub(crate) fn paused_when(mut self, ready: impl Fn() -> bool, time: Duration) -> Self {
        if self.is_there_when(ready) {
            self.signal("STOP");
            thread::sleep(time);
            self.signal("CONT");
        }
        self
    }

    fn is_there_when(&mut self, ready: impl Fn() -> bool) -> bool {
        while !self.has_ended() && !ready() {
            self.fail_if_it_hangs("the moment of a signal");
            thread::sleep(Duration::from_micros(200));
        }
        // It is there as a zombie until its end is asked for.
        !self.has_ended()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end, which must have this exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Done {
        let done = self.done();
        done.exits(code);
        done
    }

    pub(crate) fn done(mut self) -> Done {
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                break Some(status);
            }
            if self.began.elapsed() > HANGS {
                self.child.0.kill().unwrap();
                self.child.0.wait().unwrap();
                break None;
            }
            thread::sleep(Duration::from_millis(2));
        };
        let took = self.began.elapsed();
        let stdout = self.stdout.map(Gathered::all).unwrap_or_default();
        let stderr = self.stderr.map(Gathered::all).unwrap_or_default();
        let mut told = self.told;
        if let Some(server) = self.server {
            let requests = server.requests();
            write!(told, "\nthe server saw {} requests", requests.len()).unwrap();
            for request in requests.iter().take(20) {
                write!(told, "\n  {request:?}").unwrap();
            }
        }
        let done = Done {
            status,
            took,
            told,
            stdout,
            stderr: String::from_utf8(stderr).unwrap(),
        };
        done.check(status.is_some(), "it hung and was killed");
        done
    }
}

/// The program after its end.
pub(crate) struct Done {
    status: Option<ExitStatus>,
    pub(crate) took: Duration,
    told: String,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    /// The exit code; `None` of a program that was killed.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Whether the system wrote a core file when it was killed.
    pub(crate) fn dumped_core(&self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.status.is_some_and(|status| status.core_dumped())
    }

    /// Fails with everything that is known unless `right`.
    #[track_caller]
    pub(crate) fn check(&self, right: bool, expected: &str) {
        assert!(right, "expected: {expected}\n{self}");
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        self.check(self.code() == Some(code), &format!("exit code {code}"));
        // No expected end is a panic.
        self.silent_about("panicked")
    }

    #[track_caller]
    pub(crate) fn exits_with_one_of(&self, codes: &[i32]) -> &Self {
        let is_one = self.code().is_some_and(|code| codes.contains(&code));
        self.check(is_one, &format!("an exit code of {codes:?}"));
        self
    }

    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output, which is JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn prints(&self, words: &str) -> &Self {
        let printed = self.printed().contains(words);
        self.check(printed, &format!("standard output says `{words}`"));
        self
    }

    /// Standard error has these words; case is ignored.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        let said = self.stderr.to_lowercase().contains(&words.to_lowercase());
        self.check(said, &format!("standard error says `{words}`"));
        self
    }

    /// Neither stream has these words.
    #[track_caller]
    pub(crate) fn silent_about(&self, words: &str) -> &Self {
        let said = self.printed().contains(words) || self.stderr.contains(words);
        self.check(!said, &format!("nothing says `{words}`"));
        self
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout);
        writeln!(f, "{}", self.told)?;
        match self.status {
            Some(status) => writeln!(f, "{status} after {:?}", self.took)?,
            None => writeln!(f, "killed after {:?}", self.took)?,
        }
        write!(f, "--- stdout\n{stdout}\n--- stderr\n{}\n---", self.stderr)
    }
}

/// What came down a stream so far, gathered by a thread.
struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Gathered {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut block = [0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut block) {
                shared.lock().unwrap().extend_from_slice(&block[..read]);
            }
        });
        Self { bytes, thread }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    fn all(self) -> Vec<u8> {
        let Self { bytes, thread } = self;
        thread.join().unwrap();
        std::mem::take(&mut bytes.lock().unwrap())
    }
}

/// A device or file that takes output.
pub(crate) fn device(path: &str) -> File {
    File::options().write(true).open(path).unwrap()
}

/// Fails if the text has a character that could control a terminal.
pub(crate) fn clean(what: &str, text: &str) {
    let steers = |c: &char| {
        *c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200f}\u{feff}\u{2028}".contains(*c))
    };
    let found: Vec<_> = text.chars().filter(steers).collect();
    assert!(found.is_empty(), "{what} has {found:?}:\n{text:?}");
}

/// Has processes that are started from here end at SIGHUP as usual, also where this one was told to ignore it, as by `nohup`:
/// what is handled here is not handed down.
fn heed_hang_ups() {
    static HEEDED: std::sync::Once = std::sync::Once::new();
    HEEDED.call_once(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().build().unwrap();
        let kind = tokio::signal::unix::SignalKind::hangup();
        runtime.block_on(async { drop(tokio::signal::unix::signal(kind).unwrap()) });
    });
}
