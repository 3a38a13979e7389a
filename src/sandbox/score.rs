//! The stand-in's score: a documented, deterministic function of a user's fields. It means nothing.
//!
//! It starts at 0.20, adds the points of every pattern that the user shows, and up to 0.59 by a
//! hash of the fields (so that scores differ). The maximum is 10.00.

use super::check::User;

/// A pattern that adds to a score: its name in `risk_patterns`, how many hundredths it adds, and who shows it.
type Pattern = (&'static str, u32, fn(&User) -> bool);

const PATTERNS: [Pattern; 8] = [
    ("disposable_mail_domain", 350, disposable_domain),
    ("private_ip", 250, private_ip),
    ("bot_like_agent", 250, |user| {
        contains_any(&user.user_agent, BOTS)
    }),
    ("digits_in_name", 150, |user| {
        user.name.contains(|c: char| c.is_ascii_digit())
    }),
    ("mail_unlike_name", 120, mail_unlike_name),
    ("no_email", 80, |user| user.email.is_none()),
    ("no_phone", 40, |user| user.phone.is_none()),
    ("single_word_name", 60, |user| {
        user.name.split_whitespace().nth(1).is_none()
    }),
];

const BASE: u32 = 20;
const SPREAD: u64 = 60;
const MOST: u32 = 1000;

/// The score in hundredths, and the names of the user's patterns.
pub(super) fn of(user: &User) -> (u32, Vec<&'static str>) {
    let shown = || PATTERNS.iter().filter(|(_, _, shown)| shown(user));
    let points: u32 = shown().map(|(_, points, _)| points).sum();
    let spread = u32::try_from(hash(user) % SPREAD).unwrap_or(0);
    let names = shown().map(|(name, ..)| *name).collect();
    ((BASE + points + spread).min(MOST), names)
}

/// FNV-1a of the fields: the same on every machine and in every version.
pub(super) fn hash(user: &User) -> u64 {
    let fields = [
        Some(&user.name),
        user.email.as_ref(),
        user.phone.as_ref(),
        Some(&user.ip),
        Some(&user.user_agent),
    ];
    let bytes = { fields.into_iter() }.flat_map(|field| {
        field
            .map(String::as_bytes)
            .unwrap_or_default()
            .iter()
            .chain(&[0xff])
    });
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

const DISPOSABLE: &str =
    "mailinator trashmail tempmail guerrillamail 10minutemail yopmail disposable throwaway";

fn disposable_domain(user: &User) -> bool {
    let parts = { user.email.as_deref() }.and_then(|email| email.split_once('@'));
    contains_any(parts.map_or("", |(_, domain)| domain), DISPOSABLE)
}

fn private_ip(user: &User) -> bool {
    match user.ip.parse() {
        Ok(std::net::IpAddr::V4(ip)) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        Ok(std::net::IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => false,
    }
}

const BOTS: &str = "bot crawler spider curl wget python headless go-http-client";

/// Only if the name has a word that could be in an address at all.
fn mail_unlike_name(user: &User) -> bool {
    let parts = { user.email.as_deref() }.and_then(|email| email.split_once('@'));
    let Some((local, _)) = parts else {
        return false;
    };
    let local = local.to_ascii_lowercase();
    let name = user.name.to_ascii_lowercase();
    let mut words = name
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| word.len() >= 3)
        .peekable();
    words.peek().is_some() && !words.any(|word| local.contains(word))
}

fn contains_any(text: &str, words: &str) -> bool {
    let text = text.to_ascii_lowercase();
    words.split(' ').any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, email: Option<&str>, ip: &str, user_agent: &str) -> User {
        User {
            name: name.to_owned(),
            email: email.map(str::to_owned),
            phone: Some("+15550100199".to_owned()),
            ip: ip.to_owned(),
            user_agent: user_agent.to_owned(),
            ..User::default()
        }
    }

    #[test]
    fn an_ordinary_user_is_low_and_the_same_every_time() {
        let jane = user(
            "Jane Doe",
            Some("jane@example.com"),
            "192.0.2.1",
            "Mozilla/5.0",
        );
        let (score, patterns) = of(&jane);
        assert!(
            (20..80).contains(&score) && patterns.is_empty(),
            "{score} {patterns:?}"
        );
        assert_eq!(of(&jane), of(&jane.clone()));
    }

    #[test]
    fn patterns_add_up_to_ten_at_most() {
        let bot = user("x1", Some("zz@mailinator.example"), "10.0.0.1", "curl/8.5");
        let (score, patterns) = of(&bot);
        assert_eq!(
            patterns,
            [
                "disposable_mail_domain",
                "private_ip",
                "bot_like_agent",
                "digits_in_name",
                "single_word_name"
            ]
        );
        assert_eq!(score, 1000);
        let other = user("Jane Doe", Some("bob@example.com"), "::1", "Mozilla/5.0");
        assert_eq!(of(&other).1, ["private_ip", "mail_unlike_name"]);
    }
}
