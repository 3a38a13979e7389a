//! The sections: what is measured together, and can be chosen by name.

/// Lines that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    EndToEndCsv,
    EndToEndJsonl,
    Latency,
    Rate,
    Startup,
    Ledger,
    Known,
    Memory,
    FourMillion,
    Resume,
    TenMillion,
    Files,
    Check,
    CheckTenMillion,
    Decide,
    Report,
    Phones,
}

impl Section {
    /// In the order in which they are measured.
    pub(crate) const ALL: [Self; 17] = [
        Self::EndToEndCsv,
        Self::EndToEndJsonl,
        Self::Latency,
        Self::Rate,
        Self::Startup,
        Self::Ledger,
        Self::Known,
        Self::Memory,
        Self::Files,
        Self::Check,
        Self::Decide,
        Self::Report,
        Self::Phones,
        Self::FourMillion,
        Self::Resume,
        Self::TenMillion,
        Self::CheckTenMillion,
    ];

    /// The word that chooses it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::EndToEndCsv => "end-to-end-csv",
            Self::EndToEndJsonl => "end-to-end-jsonl",
            Self::Latency => "latency",
            Self::Rate => "rate",
            Self::Startup => "startup",
            Self::Ledger => "ledger",
            Self::Known => "known",
            Self::Memory => "memory",
            Self::FourMillion => "four-million",
            Self::Resume => "resume",
            Self::TenMillion => "ten-million",
            Self::Files => "files",
            Self::Check => "check",
            Self::CheckTenMillion => "check-ten-million",
            Self::Decide => "decide",
            Self::Report => "report",
            Self::Phones => "phones",
        }
    }

    /// Whether it takes many minutes and gigabytes, and so is measured only when that is asked for.
    pub(crate) const fn is_long(self) -> bool {
        matches!(
            self,
            Self::FourMillion | Self::Resume | Self::TenMillion | Self::CheckTenMillion
        )
    }

    /// Those whose names contain one of these, or all; long ones only if they are asked for. An error says which name
    /// chooses nothing.
    pub(crate) fn named(names: &[&str], long: bool) -> Result<Vec<Self>, String> {
        for name in names {
            let fits = |section: &&Self| section.name().contains(name);
            let mut chosen = Self::ALL.iter().filter(fits).peekable();
            if chosen.peek().is_none() {
                return Err(format!(
                    "no section is called `{name}`: --list names all of them"
                ));
            }
            if !long && chosen.all(|section| section.is_long()) {
                return Err(format!(
                    "`{name}` takes many minutes and gigabytes: add --long"
                ));
            }
        }
        let is_wanted = |section: &Self| {
            let is_named = names.iter().any(|name| section.name().contains(name));
            (long || !section.is_long()) && (names.is_empty() || is_named)
        };
        Ok(Self::ALL.into_iter().filter(is_wanted).collect())
    }
}
