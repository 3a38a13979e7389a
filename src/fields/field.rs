//! The fields of a user, and one value for each.

use std::fmt;
use std::str::FromStr;

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
