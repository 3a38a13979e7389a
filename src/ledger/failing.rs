//! A store that fails as a test says, around the real one, and one that hangs.

use std::io;

use super::keeper::{Counted, Record, Store};

/// When and how keeping answers fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fails {
    /// Which group of answers fails first, from 1; none does at 0.
    pub(crate) nth: usize,
    /// Whether all later ones do as well.
    pub(crate) for_ever: bool,
    /// Whether the group is durable all the same, as when only the last word of the disk got lost.
    pub(crate) durable: bool,
    /// With this.
    pub(crate) kind: io::ErrorKind,
}

pub(super) struct Failing<S> {
    store: S,
    fails: Fails,
    groups: usize,
}

impl<S> Failing<S> {
    pub(super) const fn new(store: S, fails: Fails) -> Self {
        Self {
            store,
            fails,
            groups: 0,
        }
    }
}

impl<S: Store> Store for Failing<S> {
    fn commit(&mut self, group: &[Record]) -> io::Result<()> {
        self.groups += 1;
        let Fails {
            nth,
            for_ever,
            durable,
            kind,
        } = self.fails;
        if nth == 0 || self.groups < nth || (self.groups > nth && !for_ever) {
            return self.store.commit(group);
        }
        if durable {
            self.store.commit(group)?;
        }
        Err(kind.into())
    }

    fn finish(&mut self) {
        self.store.finish();
    }

    fn count(&self) -> Option<Counted> {
        self.store.count()
    }
}

/// A disk that never answers, as that of a file server that is gone.
pub(super) struct Hanging;

impl Store for Hanging {
    fn commit(&mut self, _: &[Record]) -> io::Result<()> {
        loop {
            std::thread::park();
        }
    }

    fn finish(&mut self) {}

    fn count(&self) -> Option<Counted> {
        None
    }
}
