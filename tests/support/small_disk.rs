//! A disk of some megabytes that a test fills up and empties, where it may mount one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A disk. It is gone with this process, however that ends.
pub(crate) struct SmallDisk {
    path: PathBuf,
    /// Removes it when its standard input ends.
    watcher: Child,
}

impl SmallDisk {
    /// A disk of this size, such as `64m`; `None` if it cannot be mounted here, which is said.
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let path = tempfile::Builder::new()
            .prefix("rescore-disk-")
            .tempdir_in("/tmp")
            .unwrap()
            .keep();
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size},mode=1777"),
                "tmpfs",
            ])
            .arg(&path)
            .output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            let _ = fs::remove_dir(&path);
            let test = std::thread::current();
            let name = test.name().unwrap_or("a test").to_owned();
            // Not through the test harness, which shows nothing of a test that passes.
            let _ = writeln!(std::io::stderr(), "skipped: {name} may mount no disk here");
            return None;
        }
        // Who still uses it may go on to do so.
        let watcher = Command::new("sh")
            .args(["-c", "read _; umount -l \"$1\"; rmdir \"$1\"", "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Some(Self { path, watcher })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Leaves no byte of it free.
    pub(crate) fn fill(&self) {
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(self.filler())
            .unwrap();
        while filler.write_all(&[0; 4_096]).is_ok() {}
    }

    /// Makes the room free again that was filled up.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}
