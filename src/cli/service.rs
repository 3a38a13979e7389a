//! The arguments that say which service answers, and how it is reached.

use std::path::PathBuf;

use clap::Args;

use super::key;
use super::sources::Sources;
use super::values::PlanArg;
use crate::base::error::{Error, Result};
use crate::config::{RealService, ServiceConfig};
use crate::service::{Endpoint, Plan, Proxy, ServiceId};

const SERVICE: &str = "Service";

// A doc comment would be taken for the help of `run`.
#[derive(Debug, Args)]
#[allow(
    clippy::struct_excessive_bools,
    clippy::doc_markdown,
    reason = "flags are bools, and these comments are the help's text"
)]
pub(super) struct ServiceArgs {
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
    /// Read the API key from this file instead of the variable RESCORE_API_KEY
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    api_key_file: Option<PathBuf>,
    /// Request VPN and proxy detection (paid plan)
    #[arg(long, help_heading = SERVICE)]
    vpn_check: bool,
    /// Request advanced processing (paid plan)
    #[arg(long, help_heading = SERVICE)]
    advanced: bool,
    /// Allow an address without HTTPS: keys and personal data are sent unencrypted
    #[arg(long, help_heading = SERVICE)]
    allow_http: bool,
    /// Trust one more certificate (PEM): a company's own authority, or the service's own certificate
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    ca_file: Option<PathBuf>,
}

impl ServiceArgs {
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

    pub(super) fn config(&self, sources: Sources<'_>) -> Result<ServiceConfig> {
        let (base, id, flag, variable) = match self.plan {
            PlanArg::Paid => (&self.base_url, "base_url", "--base-url", "RESCORE_BASE_URL"),
            PlanArg::Free => (
                &self.free_base_url,
                "free_base_url",
                "--free-base-url",
                "RESCORE_FREE_BASE_URL",
            ),
        };
        let service_id = { self.service_id.as_deref() }.filter(|id| !id.trim().is_empty());
        let key = key::find(self.api_key_file.as_deref())?;
        let is_key_named = key.is_some();
        let (Some(base), Some(service_id), Some(key)) = (base, service_id, key) else {
            return Err(missing(&[
                (
                    base.is_some(),
                    "service address",
                    format!("{flag} URL"),
                    variable,
                ),
                (
                    service_id.is_some(),
                    "service id",
                    "--service-id ID".to_owned(),
                    "RESCORE_SERVICE_ID",
                ),
                (
                    is_key_named,
                    "API key",
                    "--api-key-file FILE".to_owned(),
                    key::VARIABLE,
                ),
            ]));
        };
        let endpoint = Endpoint::new(base, self.allow_http).map_err(sources.in_value_of(id))?;
        let proxy = Proxy::of(&endpoint, std::env::var_os)?;
        let service_id = ServiceId::new(service_id).map_err(sources.in_value_of("service_id"))?;
        Ok(ServiceConfig::Real(Box::new(RealService {
            endpoint,
            key,
            service_id,
            proxy,
            ca_file: self.ca_file.clone(),
        })))
    }
}

/// Names everything that is missing together, so that nobody finds it out piece by piece.
fn missing(settings: &[(bool, &str, String, &str)]) -> Error {
    let missing = || settings.iter().filter(|(is_there, ..)| !is_there);
    let names: Vec<_> = missing()
        .map(|(_, what, ..)| format!("no {what}"))
        .collect();
    let error = Error::usage(names.join(", "));
    missing()
        .fold(error, |error, (_, what, option, variable)| {
            error.detail(format!(
                "{what}: give `{option}` or set the variable `{variable}`"
            ))
        })
        .hint("`--sandbox` uses a built-in stand-in, which needs no address, id or key")
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
