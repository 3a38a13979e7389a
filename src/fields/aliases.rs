//! The names that columns have in practice, in seven languages. `docs/columns.md` has the same
//! table.
//!
//! They are written without case, spaces, punctuation and accents, those of a language in one text. A name is listed only if it
//! means the field beyond doubt: a wrong guess would be paid for in every row.

use super::field::Field;

/// Column names for a name that may also mean half of it: `Nom` is a last name beside `Prénom`,
/// `Nome` a first name beside `Cognome`.
pub(super) const BARE_NAMES: &[&str] = &["name nom nombre nome naam"];

/// Column names for a first name.
pub(super) const FIRST_NAMES: &[&str] = &[
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
pub(super) const LAST_NAMES: &[&str] = &[
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

/// The single names of such texts.
pub(super) fn each(texts: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    texts.iter().flat_map(|text| text.split(' '))
}

/// The column names of each field; earlier ones take precedence.
pub(super) fn aliases(field: Field) -> impl Iterator<Item = &'static str> {
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
    "email emailaddress mail mailaddress emailaddr useremail customeremail",
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
     cellphone cell msisdn userphone",
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
    "ip ipaddress ipaddr clientip userip remoteip remoteaddr remoteaddress",
    // German, French, Spanish, Portuguese, Italian, Dutch
    "ipadresse adresseip direccionip enderecoip indirizzoip ipadres",
];

const USER_AGENTS: &[&str] =
    &["useragent ua useragentstring browseruseragent httpuseragent uastring"];
