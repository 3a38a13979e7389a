//! A library that makes the clock of a program wrong, once it is loaded before the C library. With `WRONG_CLOCK=SECONDS,MILLIS`,
//! the time of day is so many seconds off when the program has run for so many milliseconds.

use std::ffi::{c_char, c_int, c_void};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

#[repr(C)]
pub struct Time {
    seconds: i64,
    /// Nanoseconds, or microseconds for `gettimeofday`.
    parts: i64,
}

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static WRONG: LazyLock<Option<(i64, Duration)>> = LazyLock::new(|| {
    let text = std::env::var("WRONG_CLOCK").ok()?;
    let (seconds, millis) = text.split_once(',')?;
    Some((
        seconds.parse().ok()?,
        Duration::from_millis(millis.parse().ok()?),
    ))
});

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Time) -> c_int {
    type Read = unsafe extern "C" fn(c_int, *mut Time) -> c_int;
    // SAFETY: -1 is `RTLD_NEXT`, the name ends in zero, and the next function of this name has this type.
    let done = unsafe {
        let next = dlsym(usize::MAX as *mut c_void, c"clock_gettime".as_ptr());
        std::mem::transmute::<*mut c_void, Read>(next)(clock, time)
    };
    // 0 and 5 are the time of day.
    if done == 0 && [0, 5].contains(&clock) {
        let wrong = WRONG.filter(|(_, after)| START.elapsed() >= *after);
        // SAFETY: it was just written to.
        unsafe { (*time).seconds += wrong.map_or(0, |(seconds, _)| seconds) };
    }
    done
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Time, _zone: *mut c_void) -> c_int {
    // SAFETY: the caller has room for a time.
    unsafe {
        let done = clock_gettime(0, time);
        (*time).parts /= 1_000;
        done
    }
}
