//! The arguments that say which service is meant, for which account and plan. Every command that counts or makes calls has
//! them.

use clap::Args;

use super::choices::PlanArg;
use super::sources::Sources;
use crate::base::error::{Error, Result};
use crate::service::{Endpoint, Plan, ServiceId};

/// Their heading in the help.
pub(super) const SERVICE: &str = "Service";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct AccountArgs {
    /// Base address of the paid plan
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    base_url: Option<String>,
    /// Base address of the free plan
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    free_base_url: Option<String>,
    /// The plan to use
    #[arg(long, value_enum, default_value = "paid", help_heading = SERVICE)]
    plan: PlanArg,
    /// Identifier of the calling application (header X-Service-ID)
    #[arg(long, value_name = "ID", help_heading = SERVICE)]
    service_id: Option<String>,
    /// Request VPN and proxy detection (paid plan)
    #[arg(long, help_heading = SERVICE)]
    vpn_check: bool,
    /// Request advanced processing (paid plan)
    #[arg(long, help_heading = SERVICE)]
    advanced: bool,
}

/// The service's address and the service ID as they were given, each of them if it was.
pub(super) struct GivenAccount<'a> {
    base: Option<&'a str>,
    /// The option of the address.
    id: &'static str,
    flag: &'static str,
    variable: &'static str,
    service_id: Option<&'a str>,
}

impl AccountArgs {
    /// The plan with its flags.
    ///
    /// # Errors
    /// A flag of the paid plan with the free one.
    pub(super) fn plan(&self) -> Result<Plan> {
        let Self {
            vpn_check,
            advanced,
            ..
        } = *self;
        match self.plan {
            PlanArg::Paid => Ok(Plan::Paid {
                vpn_check,
                advanced,
            }),
            PlanArg::Free if vpn_check || advanced => {
                let flag = if vpn_check {
                    "--vpn-check"
                } else {
                    "--advanced"
                };
                Err(Error::usage(format!("`{flag}` is for the paid plan only"))
                    .hint("leave it out, or use `--plan paid`"))
            }
            PlanArg::Free => Ok(Plan::Free),
        }
    }

    /// What was given of the account.
    pub(super) fn given(&self) -> GivenAccount<'_> {
        let (base, id, flag, variable) = match self.plan {
            PlanArg::Paid => (&self.base_url, "base_url", "--base-url", "RESCORE_BASE_URL"),
            PlanArg::Free => (
                &self.free_base_url,
                "free_base_url",
                "--free-base-url",
                "RESCORE_FREE_BASE_URL",
            ),
        };
        GivenAccount {
            base: base.as_deref(),
            id,
            flag,
            variable,
            service_id: { self.service_id.as_deref() }.filter(|id| !id.trim().is_empty()),
        }
    }
}

impl GivenAccount<'_> {
    /// Whether neither address nor service ID was given.
    pub(super) const fn is_nothing(&self) -> bool {
        self.base.is_none() && self.service_id.is_none()
    }

    /// What is missing of it.
    pub(super) fn missing(&self) -> Vec<MissingSetting> {
        let address = MissingSetting {
            what: "service address",
            option: format!("{} URL", self.flag),
            variable: self.variable,
        };
        let service_id = MissingSetting {
            what: "service id",
            option: "--service-id ID".to_owned(),
            variable: "RESCORE_SERVICE_ID",
        };
        let address = self.base.is_none().then_some(address);
        let service_id = self.service_id.is_none().then_some(service_id);
        address.into_iter().chain(service_id).collect()
    }

    /// The address and the service ID; `None` if one of them is missing.
    ///
    /// # Errors
    /// One of them is not valid.
    pub(super) fn parse(
        &self,
        allow_http: bool,
        sources: Sources<'_>,
    ) -> Result<Option<(Endpoint, ServiceId)>> {
        let (Some(base), Some(service_id)) = (self.base, self.service_id) else {
            return Ok(None);
        };
        let endpoint = Endpoint::new(base, allow_http).map_err(sources.in_value_of(self.id))?;
        let service_id = ServiceId::new(service_id).map_err(sources.in_value_of("service_id"))?;
        Ok(Some((endpoint, service_id)))
    }
}

/// A setting that a command needs and was not given.
pub(super) struct MissingSetting {
    pub(super) what: &'static str,
    pub(super) option: String,
    pub(super) variable: &'static str,
}

impl MissingSetting {
    /// Names everything that is missing together, so that nobody finds it out piece by piece.
    pub(super) fn error(missing: &[Self]) -> Error {
        let names: Vec<_> = missing
            .iter()
            .map(|setting| format!("no {}", setting.what))
            .collect();
        let error = Error::usage(names.join(", "));
        missing.iter().fold(error, |error, setting| {
            let Self {
                what,
                option,
                variable,
            } = setting;
            error.detail(format!(
                "{what}: give `{option}` or set the variable `{variable}`"
            ))
        })
    }
}

/// Refuses `--sandbox` with an address on the command line: a user who types one means the service, and must not get made-up
/// scores.
pub(super) fn refuse_address(sources: Sources<'_>) -> Result<()> {
    let address = [
        ("base_url", "--base-url"),
        ("free_base_url", "--free-base-url"),
    ];
    match address.into_iter().find(|(id, _)| sources.is_typed(id)) {
        None => Ok(()),
        Some((_, flag)) => Err(Error::usage(format!(
            "`--sandbox` and `{flag}` cannot be used together: with `--sandbox` the built-in stand-in answers, not the service"
        ))
        .hint(format!("leave out `--sandbox` to call the service, or `{flag}` to call the stand-in"))),
    }
}
