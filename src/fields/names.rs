//! Which column names mean which field, and which are near enough for a hint.
//!
//! A name that means a field beyond doubt is taken; one that might (`last_login_ip`, `first_name`) is only suggested:
//! a wrong guess would be paid for in every row.

use super::Field;

/// Names of each field as they come, without case and punctuation; earlier ones win over later ones.
const fn aliases(field: Field) -> &'static [&'static str] {
    match field {
        Field::Name => &[
            "name",
            "fullname",
            "customername",
            "displayname",
            "realname",
            "personname",
            "contactname",
        ],
        Field::Email => &[
            "email",
            "emailaddress",
            "mail",
            "mailaddress",
            "emailaddr",
            "useremail",
            "customeremail",
        ],
        Field::Phone => &[
            "phone",
            "phonenumber",
            "telephone",
            "telephonenumber",
            "phoneno",
            "tel",
            "mobile",
            "mobilephone",
            "mobilenumber",
            "cellphone",
            "cell",
            "msisdn",
            "userphone",
        ],
        Field::Ip => &[
            "ip",
            "ipaddress",
            "ipaddr",
            "clientip",
            "userip",
            "remoteip",
            "remoteaddr",
            "remoteaddress",
        ],
        Field::UserAgent => &[
            "useragent",
            "ua",
            "useragentstring",
            "browseruseragent",
            "httpuseragent",
            "uastring",
        ],
    }
}

/// A name without case, spaces and punctuation.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// The field that a column's name means and how plainly it does: 0 is the field's own name.
#[must_use]
pub fn rank(name: &str) -> Option<(Field, usize)> {
    let plain = plain(name);
    Field::ALL.into_iter().find_map(|field| {
        let place = aliases(field).iter().position(|alias| *alias == plain)?;
        Some((field, place))
    })
}

/// The `--map` argument worth trying for a field that no column was found for.
#[must_use]
pub fn suggestion(field: Field, columns: &[String]) -> Option<String> {
    let having = |part: &str| columns.iter().find(|column| plain(column).contains(part));
    if field == Field::Name
        && let Some(first) = having("firstname").or_else(|| having("givenname"))
        && let Some(last) = having("lastname")
            .or_else(|| having("surname"))
            .or_else(|| having("familyname"))
    {
        return Some(format!("--map 'name={{{first}}} {{{last}}}'"));
    }
    let words = |column: &str| -> Vec<String> {
        column
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let by_word = columns.iter().find(|column| {
        let words = words(column);
        aliases(field)
            .iter()
            .any(|alias| words.iter().any(|word| word == alias))
    });
    let by_spelling = || {
        columns
            .iter()
            .map(|column| {
                let plain = plain(column);
                let likeness = aliases(field)
                    .iter()
                    .map(|alias| strsim::jaro_winkler(alias, &plain))
                    .fold(0.0, f64::max);
                (likeness, column)
            })
            // Below this, jaro-winkler calls `note` like `name`.
            .filter(|(likeness, _)| *likeness >= 0.88)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, column)| column)
    };
    let column = by_word.or_else(by_spelling)?;
    Some(option(field, column))
}

/// The `--map` option as a person would type it.
pub(super) fn option(field: Field, column: &str) -> String {
    let quote = if column.contains(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')) {
        "'"
    } else {
        ""
    };
    format!("--map {quote}{field}={column}{quote}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_variants_are_understood() {
        for (name, field) in [
            ("E-mail", Field::Email),
            ("email_address", Field::Email),
            ("Full Name", Field::Name),
            ("ip_address", Field::Ip),
            ("userAgent", Field::UserAgent),
            ("UA", Field::UserAgent),
            ("Phone Number", Field::Phone),
        ] {
            assert_eq!(rank(name).map(|(field, _)| field), Some(field), "{name}");
        }
        for name in ["last_login_ip", "first_name", "username", "country", ""] {
            assert_eq!(rank(name), None, "{name}");
        }
    }

    #[test]
    fn near_names_are_only_suggested() {
        let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            suggestion(Field::Ip, &columns(&["id", "last_login_ip"])).as_deref(),
            Some("--map ip=last_login_ip")
        );
        assert_eq!(
            suggestion(Field::Name, &columns(&["First Name", "Last Name"])).as_deref(),
            Some("--map 'name={First Name} {Last Name}'")
        );
        assert_eq!(
            suggestion(Field::Email, &columns(&["id", "emial"])).as_deref(),
            Some("--map email=emial")
        );
        assert_eq!(suggestion(Field::Name, &columns(&["id", "note"])), None);
    }
}
