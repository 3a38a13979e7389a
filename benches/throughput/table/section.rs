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
    EqualRows,
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
    pub(crate) const ALL: [Self; 18] = [
        Self::EndToEndCsv,
        Self::EndToEndJsonl,
        Self::Latency,
        Self::Rate,
        Self::Startup,
        Self::Ledger,
        Self::EqualRows,
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
            Self::EqualRows => "equal-rows",
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
}
