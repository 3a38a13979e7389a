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
    #[must_use]
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

/// One value per field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PerField<T> {
    /// For [`Field::Name`].
    pub(crate) name: T,
    /// For [`Field::Email`].
    pub(crate) email: T,
    /// For [`Field::Phone`].
    pub(crate) phone: T,
    /// For [`Field::Ip`].
    pub(crate) ip: T,
    /// For [`Field::UserAgent`].
    pub(crate) user_agent: T,
}

impl<T> PerField<T> {
    /// The value of one field.
    pub(crate) const fn get(&self, field: Field) -> &T {
        match field {
            Field::Name => &self.name,
            Field::Email => &self.email,
            Field::Phone => &self.phone,
            Field::Ip => &self.ip,
            Field::UserAgent => &self.user_agent,
        }
    }

    /// The value of one field, to change it.
    pub(crate) const fn get_mut(&mut self, field: Field) -> &mut T {
        match field {
            Field::Name => &mut self.name,
            Field::Email => &mut self.email,
            Field::Phone => &mut self.phone,
            Field::Ip => &mut self.ip,
            Field::UserAgent => &mut self.user_agent,
        }
    }

    /// A value for each field, made from the field.
    pub(crate) fn from_fn(mut make: impl FnMut(Field) -> T) -> Self {
        Self {
            name: make(Field::Name),
            email: make(Field::Email),
            phone: make(Field::Phone),
            ip: make(Field::Ip),
            user_agent: make(Field::UserAgent),
        }
    }

    /// Like [`PerField::from_fn`], but stops at the first error.
    pub(crate) fn try_from_fn<E>(mut make: impl FnMut(Field) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            name: make(Field::Name)?,
            email: make(Field::Email)?,
            phone: make(Field::Phone)?,
            ip: make(Field::Ip)?,
            user_agent: make(Field::UserAgent)?,
        })
    }
}
