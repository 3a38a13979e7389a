//! Values of options: what is allowed, and the message when a value is not.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

use crate::base::numbers::{DAY, Decimal, Tolerance};
use crate::fields::{Field, PhoneRegion, Template};
use crate::ledger::Per;
use crate::raw_json::Pointer;
use crate::selection::{Condition, Precision, Sample};

/// One of a few words, which help, errors and completions list, each with its value.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = words.iter().map(|(word, _)| *word);
    PossibleValuesParser::new(names).try_map(|given| {
        let meant = words.iter().find(|(word, _)| *word == given);
        meant.map(|(_, value)| value.clone()).ok_or("unknown word")
    })
}

/// `--map FIELD=COLUMN`.
pub(crate) fn map(text: &str) -> Result<(Field, Template<String>), String> {
    let (field, column) = text
        .split_once('=')
        .ok_or("expected FIELD=COLUMN, such as `ip=last_login_ip`")?;
    Ok((field.trim().parse()?, Template::parse(column)?))
}

/// `--set FIELD=VALUE`, `--default FIELD=VALUE`.
pub(crate) fn set(text: &str) -> Result<(Field, String), String> {
    let (field, value) = text
        .split_once('=')
        .ok_or("expected FIELD=VALUE, such as `user_agent=unknown`")?;
    if value.trim().is_empty() {
        return Err(format!("the value of `{}` is missing", field.trim()));
    }
    Ok((field.trim().parse()?, value.to_owned()))
}

/// `--null TEXT`: compared with cells without the white space around them.
pub(crate) fn null(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("the text is missing: an empty cell is empty anyway"),
        text => Ok(text.to_owned()),
    }
}

/// `--phone-region`.
pub(crate) fn phone_region(text: &str) -> Result<PhoneRegion, &'static str> {
    PhoneRegion::of_code(text)
        .ok_or("expected the ISO 3166 code of a country, such as `DE`, `GB` or `US`, or `+`")
}

/// The name of a column of the output.
pub(crate) fn new_column_name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() || text.contains(char::is_control) {
        return Err("the column name is missing or has control characters");
    }
    Ok(text.to_owned())
}

/// `--column NAME=/json/pointer`; nothing points to the whole answer.
pub(crate) fn column(text: &str) -> Result<(String, Pointer), String> {
    let (name, pointer) = text
        .split_once('=')
        .ok_or("expected NAME=/json/pointer, such as `risk_level=/summary/risk_level`")?;
    let pointer = match pointer {
        "" => Pointer::to_all(),
        pointer => Pointer::parse(pointer)?,
    };
    Ok((new_column_name(name)?, pointer))
}

/// `--decide-by`.
#[derive(Debug, Clone)]
pub(crate) enum DecideBy {
    /// By the score.
    Score,
    /// By this level: a JSON pointer, or the name of a column.
    Level(String),
}

/// The value of an option of this name.
pub(crate) fn decide_by(text: &str) -> Result<DecideBy, &'static str> {
    match text.split_once('=') {
        None if text == "score" => Ok(DecideBy::Score),
        Some(("level", level)) if !level.trim().is_empty() => Ok(DecideBy::Level(level.to_owned())),
        _ => {
            Err("expected `score`, or `level=` and its place, such as `level=/summary/risk_level`")
        }
    }
}

/// `--outcome COLUMN=VALUE`. An empty value means that the outcome is not known.
pub(crate) fn outcome(text: &str) -> Result<Condition, &'static str> {
    let outcome = text.parse::<Condition>();
    outcome.ok().filter(|outcome| !outcome.holds("")).ok_or(
        "expected COLUMN=VALUE with the values that mean fraud, such as `chargeback=yes,disputed`",
    )
}

/// `--catch N%`, in percent.
pub(crate) fn catch(text: &str) -> Result<f64, &'static str> {
    let percent = text.strip_suffix('%').and_then(|it| it.trim().parse().ok());
    let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or("expected a share above 0% and up to 100%, such as `90%`")
}

/// `--sample N%`, or `--sample auto:±N%` for a sample that grows until it tells enough.
pub(crate) fn sample(text: &str) -> Result<(Sample, Option<Precision>), &'static str> {
    match text.strip_prefix("auto:") {
        Some(precision) => Ok((Sample::FIRST_ROUND, Some(precision.parse()?))),
        None => Ok((text.parse()?, None)),
    }
}

/// `--prefix`: the start of column names.
pub(crate) fn prefix(text: &str) -> Result<String, &'static str> {
    if text.contains(char::is_control) {
        return Err("a column name cannot have control characters");
    }
    Ok(text.to_owned())
}

/// `--delimiter`: one byte, as files with longer ones do not exist in practice and could not be quoted soundly.
pub(crate) fn delimiter(text: &str) -> Result<u8, &'static str> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("a quote or a line end cannot be the delimiter"),
        [byte] if byte.is_ascii_alphanumeric() || b".+-".contains(byte) => Err(
            "a letter, digit, dot, plus or minus can be part of a score and cannot be the delimiter",
        ),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one ASCII character, or `tab`"),
    }
}

/// A time with its units, as in `1h 30m`. Days and weeks are of 24 hours; months and years are those from 2000 on.
fn span(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let time = span.to_duration(jiff::civil::date(2000, 1, 1)).ok()?;
    time.try_into().ok()
}

/// A time in this range; `words` says what is allowed.
fn time(text: &str, range: RangeInclusive<Duration>, words: &str) -> Result<Duration, String> {
    let time = span(text).filter(|time| range.contains(time));
    time.ok_or_else(|| format!("expected a time from {words}"))
}

const SECOND: Duration = Duration::from_secs(1);
/// More than an hour for one call is a mistake in the unit.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A time above zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let words = "1ms to 1h with its unit, such as `500ms`, `30s` or `2m`";
    time(text, Duration::from_millis(1)..=HOUR, words)
}

/// A time that may be zero.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let words = "0s to 1h with its unit, such as `500ms` or `2s`";
    time(text, Duration::ZERO..=HOUR, words)
}

/// How long a run waits for a service, or for another run.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let words = "1s to 7d with its unit, such as `15m` or `2h`";
    time(text, SECOND..=7 * DAY, words)
}

/// How long a run may last.
pub(crate) fn run_time(text: &str) -> Result<Duration, String> {
    let words = "1s to 366d with its unit, such as `8h` or `7d`";
    time(text, SECOND..=366 * DAY, words)
}

/// How old an answer may be, up to ten years.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let words = "1s to 10 years with its unit, such as `12h` or `7d`";
    time(text, SECOND..=10 * 366 * DAY, words)
}

/// How old answers may be: all of them this old, or each up to an age between two.
pub(crate) fn ages(text: &str) -> Result<(Duration, Duration), String> {
    match text.split_once("..") {
        None => age(text).map(|age| (age, age)),
        Some((least, most)) => match (age(least)?, age(most)?) {
            (least, most) if least < most => Ok((least, most)),
            _ => Err("expected the shorter time first, as in `24d..30d`".to_owned()),
        },
    }
}

/// A file, which cannot be a stream.
pub(crate) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == Path::new("-") {
            return Err("this must be a file and not a stream; `./-` is a file of that name");
        }
        Ok(path)
    })
}

/// `--concurrency`.
pub(crate) fn concurrency(text: &str) -> Result<NonZeroUsize, &'static str> {
    let calls = text.parse().ok();
    calls
        .filter(|calls: &NonZeroUsize| calls.get() <= 10_000)
        .ok_or("expected a whole number from 1 to 10000")
}

/// A number of things, at least one.
pub(crate) fn count(text: &str) -> Result<NonZeroU64, &'static str> {
    text.parse()
        .map_err(|_| "expected a whole number, at least 1")
}

/// An amount, and whose calls it is for: `500`, `500/day`, `500/month`.
pub(crate) fn per<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<(T, Per), &'static str> {
    let (amount, per) = match text.split_once('/') {
        None => (text, Per::Run),
        Some((amount, "day")) => (amount, Per::Day),
        Some((amount, "month")) => (amount, Per::Month),
        Some(_) => return Err("after the amount, only `/day` or `/month` can follow"),
    };
    Ok((parse(amount)?, per))
}

/// A share up to all, such as `0.5%`.
fn percent(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

/// How many rows may be bad.
pub(crate) fn tolerance(text: &str) -> Result<Tolerance, &'static str> {
    let share = percent(text).map(Tolerance::Percent);
    share
        .or_else(|| text.parse().ok().map(Tolerance::Rows))
        .ok_or("expected a number of rows, or a share up to 100%, such as `0.5%`")
}

/// `--max-failures`.
pub(crate) fn failure_limit(text: &str) -> Result<Tolerance, &'static str> {
    let limit = tolerance(text).ok();
    limit
        .filter(|limit| !matches!(limit, Tolerance::Rows(0) | Tolerance::Percent(0.0)))
        .ok_or("expected a whole number, at least 1, or a share such as `5%`")
}

/// A threshold, with all its digits.
pub(crate) fn threshold(text: &str) -> Result<Decimal, &'static str> {
    Decimal::new(text).ok_or("expected a number such as `2` or `4.5`, of at most 64 characters")
}

/// Where the stand-in listens: on this machine only.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    let address = text.parse().ok();
    address
        .filter(|address: &SocketAddr| address.ip().is_loopback())
        .ok_or("expected an address on loopback and a port, such as `127.0.0.1:8787`")
}

/// A rate limit of the stand-in.
pub(crate) fn per_second(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(number) if (0.001..=1e9).contains(&number) => Ok(number),
        _ => Err("expected 0.001 to 1000000000 requests per second"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_above_zero() {
        assert_eq!(failure_limit("5%"), Ok(Tolerance::Percent(5.0)));
        assert_eq!(failure_limit("5"), Ok(Tolerance::Rows(5)));
        for bad in ["0", "0%", "101%", "-1", "NaN%", "1.5", "", "%"] {
            assert!(failure_limit(bad).is_err(), "{bad}");
        }
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 24 * 60 * 60)));
        for bad in ["7", "0s", "99y", "-1d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert!(count("0").is_err() && count("1").is_ok());
        assert_eq!(tolerance("0"), Ok(Tolerance::Rows(0)));
        assert_eq!(tolerance("0.5%"), Ok(Tolerance::Percent(0.5)));
        for bad in ["-1", "1.5", "101%", "-1%", "NaN%", "", "%"] {
            assert!(tolerance(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_words_of_an_option_are_all_that_it_takes() {
        let line = |value: &'static str| {
            let arg = clap::Arg::new("plan").value_parser(one_of(&[("paid", 1), ("free", 2)]));
            let command = clap::Command::new("x").arg(arg);
            let matches = command.try_get_matches_from(["x", value]).ok();
            matches.and_then(|matches| matches.get_one::<i32>("plan").copied())
        };
        assert_eq!(
            (line("paid"), line("free"), line("gold")),
            (Some(1), Some(2), None)
        );
    }

    #[test]
    fn regions_are_countries_with_phone_numbers() {
        assert!(phone_region("de").is_ok() && phone_region("+").is_ok());
        for bad in ["Germany", "DEU", "ZZ", "49", ""] {
            assert!(phone_region(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pairs_say_what_they_expect() {
        for bad in ["ip", "ipp=x", "ip=", "name={first"] {
            assert!(map(bad).is_err(), "{bad}");
        }
        assert!(set("name= ").is_err());
        for bad in ["x", "=/a", "x=a", "a\nb=/a"] {
            assert!(column(bad).is_err(), "{bad}");
        }
    }
}
