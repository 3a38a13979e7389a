//! What the stand-in has billed, and what it remembers of it if it recognises repeated requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::HeaderMap;

use super::super::check::Rejection;
use super::super::settings::RecognisedHeader;

/// A request that was billed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    /// Its number, from 1.
    pub(super) number: u64,
    /// When it was billed.
    pub(super) at: SystemTime,
    /// A hash of the user.
    user: u64,
}

/// What was billed.
pub(super) struct Bills {
    /// The header by which repeated requests are recognised, if they are.
    header: Option<RecognisedHeader>,
    billed: AtomicU64,
    repeated: AtomicU64,
    /// By the header's value. Nothing is forgotten, as a rehearsal takes minutes.
    known: Mutex<HashMap<Box<[u8]>, Bill>>,
}

impl Bills {
    /// Nothing was billed so far.
    pub(super) fn new(header: Option<RecognisedHeader>) -> Self {
        Self {
            header,
            billed: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            known: Mutex::default(),
        }
    }

    /// How many requests were billed.
    pub(super) fn billed(&self) -> u64 {
        self.billed.load(Ordering::Relaxed)
    }

    /// How many requests were answered again without a bill.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Bills a request about this user, or finds its earlier bill.
    pub(super) fn bill(&self, headers: &HeaderMap, user: u64) -> Result<Bill, Rejection> {
        let new = || Bill {
            number: self.billed.fetch_add(1, Ordering::Relaxed) + 1,
            at: SystemTime::now(),
            user,
        };
        let Some(RecognisedHeader(name)) = &self.header else {
            return Ok(new());
        };
        let value = headers.get(name).ok_or(Rejection::new(
            StatusCode::BAD_REQUEST,
            "no_idempotency_header",
            "the header of --idempotency-header is missing",
        ))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bill) = known.get(value.as_bytes()) else {
            return Ok(*known.entry(value.as_bytes().into()).or_insert_with(new));
        };
        if bill.user != user {
            return Err(Rejection::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "other_request",
                "the value of the idempotency header belongs to another request",
            ));
        }
        self.repeated.fetch_add(1, Ordering::Relaxed);
        Ok(*bill)
    }
}
