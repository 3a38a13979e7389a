//! The five fields of a user, a value for each, and which column names mean which field, in seven languages. `docs/columns.md` has
//! the same table.
//!
//! A name that means a field beyond doubt is used. One that might (`last_login_ip`, `first_name`) is only suggested: a wrong
//! guess would be paid for in every row. The names are written without case, spaces, punctuation and accents, those of a language
//! in one text.

use std::fmt;
use std::str::FromStr;

use crate::base::text::COLUMN_CHARACTERS;

/// The five fields of a user (interface, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The full name; required.
    Name,
    /// The email address; required if there is no phone number.
    Email,
    /// The phone number in international form; required if there is no email address.
    Phone,
    /// The IP address; required.
    Ip,
    /// The browser's user agent; required.
    UserAgent,
}

impl Field {
    /// Every field, in the order in which they are sent and shown.
    pub(crate) const ALL: [Self; 5] = [
        Self::Name,
        Self::Email,
        Self::Phone,
        Self::Ip,
        Self::UserAgent,
    ];

    /// The field's name in the interface and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Ip => "ip",
            Self::UserAgent => "user_agent",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|field| field.name() == text)
            .ok_or_else(|| {
                format!("unknown field `{text}`: allowed are name, email, phone, ip and user_agent")
            })
    }
}

/// One value per field, in the order of [`Field::ALL`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PerField<T>([T; 5]);

impl<T> PerField<T> {
    /// The value of one field.
    pub(crate) const fn get(&self, field: Field) -> &T {
        let [name, email, phone, ip, user_agent] = &self.0;
        match field {
            Field::Name => name,
            Field::Email => email,
            Field::Phone => phone,
            Field::Ip => ip,
            Field::UserAgent => user_agent,
        }
    }

    /// The value of one field, to change it.
    pub(crate) const fn get_mut(&mut self, field: Field) -> &mut T {
        let [name, email, phone, ip, user_agent] = &mut self.0;
        match field {
            Field::Name => name,
            Field::Email => email,
            Field::Phone => phone,
            Field::Ip => ip,
            Field::UserAgent => user_agent,
        }
    }

    /// A value for each field, made from the field.
    pub(crate) fn from_fn(make: impl FnMut(Field) -> T) -> Self {
        Self(Field::ALL.map(make))
    }

    /// Like [`PerField::from_fn`], but stops at the first error.
    pub(crate) fn try_from_fn<E>(mut make: impl FnMut(Field) -> Result<T, E>) -> Result<Self, E> {
        let [name, email, phone, ip, user_agent] = Field::ALL;
        Ok(Self([
            make(name)?,
            make(email)?,
            make(phone)?,
            make(ip)?,
            make(user_agent)?,
        ]))
    }
}

/// A name without case, spaces, punctuation and the accents of the supported languages.
pub(super) fn plain(name: &str) -> String {
    let without_accent = |c: char| match c {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        c => c,
    };
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .map(without_accent)
        .collect()
}

/// The field that a column's name means, and its rank: 0 is the field's own name.
pub(crate) fn rank(name: &str) -> Option<(Field, usize)> {
    let plain = plain(name);
    Field::ALL.into_iter().find_map(|field| {
        let rank = aliases(field).position(|alias| alias == plain)?;
        Some((field, rank))
    })
}

/// The column that may be only half of a name, as one column has the other half and no other has this one. Sent alone, it would be
/// a wrong name in every row. Returns it, the column with the other half, which half it may be itself, and the `--map` option
/// that joins both.
pub(super) fn half(columns: &[String]) -> Option<(&str, &str, &'static str, String)> {
    let find = |names| {
        let is_in = |column: &&String| is_one_of(column, names);
        columns.iter().find(is_in)
    };
    let column = find(BARE_NAMES)?;
    match (find(FIRST_NAMES), find(LAST_NAMES)) {
        (Some(first), None) => Some((column, first, "last", joined(first, column))),
        (None, Some(last)) => Some((column, last, "first", joined(column, last))),
        _ => None,
    }
}

/// Whether a column has one of these names.
fn is_one_of(column: &str, names: &'static [&'static str]) -> bool {
    let plain = plain(column);
    each(names).any(|name| name == plain)
}

/// Whether it is the name of a field or of half a name.
pub(super) fn is_known(name: &str) -> bool {
    rank(name).is_some() || is_one_of(name, FIRST_NAMES) || is_one_of(name, LAST_NAMES)
}

fn joined(first: &str, last: &str) -> String {
    format!("--map 'name={{{first}}} {{{last}}}'")
}

/// Whether a column of this name is taken for this field.
pub(super) fn is_of(field: Field, name: &str) -> bool {
    rank(name).is_some_and(|(found, _)| found == field)
}

/// The `--map` option to suggest for a field without a column.
pub(crate) fn suggestion(field: Field, columns: &[String]) -> Option<String> {
    // Nobody has typed a name that is too long to be shown.
    let is_short = |column: &&String| column.chars().count() <= COLUMN_CHARACTERS;
    let columns: Vec<_> = columns.iter().filter(is_short).collect();
    let having = |parts| {
        let has = |column: &&&String| each(parts).any(|part| plain(column).contains(part));
        columns.iter().find(has)
    };
    if field == Field::Name
        && let Some(first) = having(FIRST_NAMES)
        && let Some(last) = having(LAST_NAMES)
    {
        return Some(joined(first, last));
    }
    let hints = if field == Field::UserAgent {
        BROWSERS
    } else {
        &[]
    };
    let column = columns.iter().find(|column| {
        let words = words(column);
        let mut meant = aliases(field).chain(each(hints));
        meant.any(|alias| words.iter().any(|word| word == alias))
    })?;
    Some(option(field, column))
}

/// The words of a name in lower case, as in `last_login_ip` and `LastLoginIP__c`.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut characters = name.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        let is_next_small = characters.peek().is_some_and(|next| next.is_lowercase());
        let starts =
            c.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && is_next_small);
        if starts || !c.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.push(word);
    words
}

/// The `--map` option as the user would type it.
pub(super) fn option(field: Field, column: &str) -> String {
    let quote = quote(column);
    format!("--map {quote}{field}={column}{quote}")
}

/// The quotes that a shell needs around a column's name.
fn quote(column: &str) -> &'static str {
    if column.contains(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')) {
        "'"
    } else {
        ""
    }
}

/// Column names for a name that may also mean half of it: `Nom` is a last name beside `Prénom`,
/// `Nome` a first name beside `Cognome`.
const BARE_NAMES: &[&str] = &["name nom nombre nome naam"];

/// Column names for a first name.
const FIRST_NAMES: &[&str] = &[
    // English
    "firstname givenname forename",
    // German
    "vorname rufname",
    // French
    "prenom prenoms",
    // Spanish
    "primernombre nombredepila",
    // Portuguese
    "primeironome nomeproprio",
    // Italian
    "nomedibattesimo",
    // Dutch
    "voornaam roepnaam",
];

/// Column names for a last name.
const LAST_NAMES: &[&str] = &[
    // English
    "lastname surname familyname",
    // German
    "nachname familienname zuname",
    // French
    "nomdefamille",
    // Spanish
    "apellido apellidos",
    // Portuguese
    "sobrenome apelido ultimonome",
    // Italian
    "cognome",
    // Dutch
    "achternaam familienaam",
];

/// The single names of these texts.
fn each(texts: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    texts.iter().flat_map(|text| text.split(' '))
}

/// The column names of each field; earlier ones take precedence.
fn aliases(field: Field) -> impl Iterator<Item = &'static str> {
    each(match field {
        Field::Name => NAMES,
        Field::Email => EMAILS,
        Field::Phone => PHONES,
        Field::Ip => IPS,
        Field::UserAgent => USER_AGENTS,
    })
}

const NAMES: &[&str] = &[
    // In all languages, as in `BARE_NAMES`.
    "name nom nombre nome naam",
    // English
    "fullname customername displayname realname personname contactname",
    // German
    "vollstandigername vollstaendigername vorundnachname vornamenachname nachnamevorname kundenname \
     kontaktname anzeigename",
    // French
    "nomcomplet nometprenom prenometnom nomprenom prenomnom nomduclient nomclient",
    // Spanish
    "nombrecompleto nombreyapellidos nombreyapellido apellidosynombre nombredelcliente nombrecliente",
    // Portuguese and Italian
    "nomecompleto nomeesobrenome nomedocliente nomecliente nomeecognome cognomeenome nomecognome \
     cognomenome nominativo nomedelcliente",
    // Dutch
    "volledigenaam voorenachternaam klantnaam naamklant",
];

const EMAILS: &[&str] = &[
    // English
    "email emailaddress mail mailaddress emailaddr useremail customeremail contactemail",
    // German
    "emailadresse mailadresse",
    // French
    "adresseemail adressemail adresseelectronique courriel adressecourriel adressedecourriel",
    // Spanish
    "correoelectronico direcciondecorreoelectronico direcciondecorreo direcciondeemail correo",
    // Portuguese
    "enderecodeemail enderecoemail correioeletronico correioelectronico enderecoeletronico",
    // Italian
    "indirizzoemail indirizzomail postaelettronica indirizzodipostaelettronica",
    // Dutch
    "emailadres mailadres",
];

const PHONES: &[&str] = &[
    // English
    "phone phonenumber telephone telephonenumber phoneno tel mobile mobilephone mobilenumber \
     cellphone cell msisdn userphone customerphone contactphone mobilephonenumber \
     phonemetadata",
    // German
    "telefon telefonnummer telefonnr telnr rufnummer handy handynummer handynr mobil mobilnummer \
     mobiltelefon mobilfunknummer",
    // French
    "numerodetelephone numerotelephone ndetelephone telephonemobile telephoneportable telportable \
     portable numerodeportable",
    // Spanish, Portuguese and Italian
    "telefono numerodetelefono telefonomovil movil telefonocelular celular numerodecelular telefone \
     numerodetelefone telefonecelular telemovel numerodetelemovel numeroditelefono telefonocellulare \
     cellulare numerodicellulare",
    // Dutch
    "telefoon telefoonnummer telefoonnr mobiel mobielnummer mobieletelefoon gsm gsmnummer",
];

const IPS: &[&str] = &[
    // English
    "ip ipaddress ipaddr clientip userip remoteip remoteaddr remoteaddress browserip customerip useripaddress",
    // German, French, Spanish, Portuguese, Italian, Dutch
    "ipadresse adresseip direccionip enderecoip indirizzoip ipadres",
];

/// Words in the name of a column that may have user agents, or only the names of browsers.
const BROWSERS: &[&str] = &["browser agent"];

const USER_AGENTS: &[&str] =
    &["useragent ua useragentstring browseruseragent httpuseragent uastring"];

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_understood_in_usual_variants_and_languages_with_and_without_accents() {
        for (name, field) in [
            ("E-mail", Some(Field::Email)),
            ("Full Name", Some(Field::Name)),
            ("ip_address", Some(Field::Ip)),
            ("userAgent", Some(Field::UserAgent)),
            ("UA", Some(Field::UserAgent)),
            ("E-Mail-Adresse", Some(Field::Email)),
            ("Téléphone", Some(Field::Phone)),
            ("Te\u{301}le\u{301}phone", Some(Field::Phone)),
            ("CORREO_ELECTRONICO", Some(Field::Email)),
            ("Endereço IP", Some(Field::Ip)),
            ("Telefoonnr.", Some(Field::Phone)),
            ("last_login_ip", None),
            ("first_name", None),
            ("username", None),
            ("Prénom", None),
            ("Adresse", None),
            ("", None),
        ] {
            assert_eq!(rank(name).map(|(field, _)| field), field, "{name}");
        }
    }

    #[test]
    fn near_names_are_only_suggested() {
        for (field, names, expected) in [
            (
                Field::Ip,
                ["id", "last_login_ip"],
                Some("--map ip=last_login_ip"),
            ),
            (
                Field::Name,
                ["First Name", "Last Name"],
                Some("--map 'name={First Name} {Last Name}'"),
            ),
            (Field::Email, ["id", "emial"], None),
            (
                Field::Ip,
                ["Id", "LastLoginIP__c"],
                Some("--map ip=LastLoginIP__c"),
            ),
            (
                Field::Ip,
                ["Email Address", "OPTIN_IP"],
                Some("--map ip=OPTIN_IP"),
            ),
            (
                Field::UserAgent,
                ["Browser", "Os"],
                Some("--map user_agent=Browser"),
            ),
            (Field::Ip, ["id", "adresse"], None),
            (Field::Ip, ["zip", "ship_address"], None),
            (Field::Name, ["id", "note"], None),
            (Field::Email, ["id", "customer"], None),
            (Field::Ip, ["id", "users"], None),
        ] {
            let found = suggestion(field, &columns(&names));
            assert_eq!(found.as_deref(), expected, "{names:?}");
        }
    }

    /// The document's names for a field, in the form in which they are compared.
    fn documented(row: &str) -> Vec<String> {
        let document = include_str!("../../docs/columns.md");
        let start = format!("| {row} |");
        let lines = document.lines().filter(|line| line.starts_with(&start));
        let names = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
        let mut names: Vec<_> = names.map(plain).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    #[test]
    fn the_document_has_all_names_and_no_others() {
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        for field in Field::ALL {
            let names = aliases(field).collect();
            assert_eq!(documented(field.name()), sorted(names), "{field}");
        }
        for (row, names) in [("first name", FIRST_NAMES), ("last name", LAST_NAMES)] {
            assert_eq!(documented(row), sorted(each(names).collect()));
        }
        let first = aliases(Field::Name).take(each(BARE_NAMES).count());
        assert!(first.eq(each(BARE_NAMES)));
    }

    #[test]
    fn a_column_may_be_half_of_a_name_if_there_is_one_for_the_other_half() {
        for (names, expected) in [
            (
                &["Vorname", "Name", "ip"][..],
                Some("--map 'name={Vorname} {Name}'"),
            ),
            (&["nom", "prénom"], Some("--map 'name={prénom} {nom}'")),
            (
                &["apellidos", "nombre"],
                Some("--map 'name={nombre} {apellidos}'"),
            ),
            // Both halves exist: the third column is the full name.
            (&["Vorname", "Nachname", "Name"], None),
            (&["voornaam", "achternaam"], None),
        ] {
            let map = half(&columns(names)).map(|(.., map)| map);
            assert_eq!(map.as_deref(), expected, "{names:?}");
        }
    }
}
