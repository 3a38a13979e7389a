//! The arguments that say which service is meant, for which account and plan, and where the API key is: in a file, a variable
//! or systemd's credentials, never in an argument, which everybody on the machine could see (`ps`).
//!
//! The key's file is not read here: `service` knows what a key may look like, and reads its file again during a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::base::error::{Error, Result};
use crate::config::ServiceConfig;
use crate::service::{
    Account, ClientSettings, Endpoint, KeyFile, KeySource, Plan, ServiceId, check_key,
    check_proxies, unusable_key,
};

/// Their heading in the help.
pub(super) const SERVICE: &str = "Service";
/// The variable that holds the key itself.
pub(super) const KEY_VARIABLE: &str = "RESCORE_API_KEY";
/// The name of systemd's credential: `LoadCredential=rescore-api-key:/etc/rescore/key`.
const CREDENTIAL: &str = "rescore-api-key";

/// `--plan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanArg {
    Paid,
    Free,
}

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// Base address of the paid plan
    #[arg(long, value_name = "URL", env = "RESCORE_BASE_URL", help_heading = SERVICE)]
    base_url: Option<String>,
    /// Base address of the free plan
    #[arg(long, value_name = "URL", env = "RESCORE_FREE_BASE_URL", help_heading = SERVICE)]
    free_base_url: Option<String>,
    /// The plan to use
    #[arg(long, value_enum, default_value = "paid", help_heading = SERVICE)]
    plan: PlanArg,
    /// Identifier of the calling application (header X-Service-ID)
    #[arg(long, value_name = "ID", env = "RESCORE_SERVICE_ID", help_heading = SERVICE)]
    service_id: Option<String>,
    /// Read the API key from this file instead of the variable RESCORE_API_KEY
    #[arg(long, value_name = "FILE", env = "RESCORE_API_KEY_FILE", help_heading = SERVICE)]
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
    /// Trust one more certificate (PEM): a company's own authority, or a server that signed its own
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    ca_file: Option<PathBuf>,
}

impl ServiceArgs {
    /// The plan with its flags.
    ///
    /// # Errors
    /// A flag of the paid plan with the free one.
    pub(super) fn plan(&self) -> Result<Plan> {
        let (vpn_check, advanced) = (self.vpn_check, self.advanced);
        let flag = if vpn_check {
            "--vpn-check"
        } else {
            "--advanced"
        };
        match self.plan {
            PlanArg::Paid => Ok(Plan::Paid {
                vpn_check,
                advanced,
            }),
            PlanArg::Free if vpn_check || advanced => {
                Err(Error::usage(format!("`{flag}` is for the paid plan only"))
                    .hint("leave it out, or use `--plan paid`"))
            }
            PlanArg::Free => Ok(Plan::Free),
        }
    }

    /// The option and the variable with the plan's address, and the address.
    fn address(&self) -> (&'static str, &'static str, Option<&str>) {
        match self.plan {
            PlanArg::Paid => ("--base-url", "RESCORE_BASE_URL", self.base_url.as_deref()),
            PlanArg::Free => (
                "--free-base-url",
                "RESCORE_FREE_BASE_URL",
                self.free_base_url.as_deref(),
            ),
        }
    }

    fn service_id(&self) -> Option<&str> {
        let id = self.service_id.as_deref();
        id.filter(|id| !id.trim().is_empty())
    }

    /// Names everything that is missing in one error.
    fn missing(&self, key: bool) -> Error {
        let (flag, variable, base) = self.address();
        let (address, id) = (format!("{flag} URL"), self.service_id());
        let all = [
            (base.is_some(), "service address", &*address, variable),
            (
                id.is_some(),
                "service id",
                "--service-id ID",
                "RESCORE_SERVICE_ID",
            ),
            (key, "API key", "--api-key-file FILE", KEY_VARIABLE),
        ];
        let missing = all.iter().filter(|(is_there, ..)| !is_there);
        let names: Vec<_> = missing
            .clone()
            .map(|(_, what, ..)| format!("no {what}"))
            .collect();
        missing.fold(
            Error::usage(names.join(", ")),
            |error, (_, what, option, variable)| {
                error.detail(format!(
                    "{what}: give `{option}` or set the variable `{variable}`"
                ))
            },
        )
    }

    /// The address and the service ID; `None` if one of them is missing.
    ///
    /// # Errors
    /// One of them is not valid.
    fn endpoint(&self, allow_http: bool) -> Result<Option<(Endpoint, ServiceId)>> {
        let (flag, _, base) = self.address();
        let (Some(base), Some(service_id)) = (base, self.service_id()) else {
            return Ok(None);
        };
        let endpoint = Endpoint::new(base, allow_http)
            .map_err(|error| error.detail(format!("it is given by `{flag}`")))?;
        Ok(Some((endpoint, ServiceId::new(service_id)?)))
    }

    /// The service, with everything that a call needs.
    ///
    /// # Errors
    /// Something is missing or not valid.
    pub(super) fn config(&self, timeout: Duration) -> Result<ServiceConfig> {
        let key = find_key(self.api_key_file.as_deref())?;
        let has_key = key.is_some();
        let (Some((endpoint, service_id)), Some(key)) = (self.endpoint(self.allow_http)?, key)
        else {
            return Err(self
                .missing(has_key)
                .hint("`--sandbox` uses a built-in stand-in, which needs no address, id or key"));
        };
        check_proxies(&endpoint, std::env::var_os)?;
        Ok(ServiceConfig::Real(Box::new(ClientSettings {
            endpoint,
            key,
            service_id,
            timeout,
            ca_file: self.ca_file.clone(),
        })))
    }

    /// The account whose answers are looked up in a check; `None` is the only one that the ledger has.
    ///
    /// # Errors
    /// One of address and service ID is missing, or not valid.
    pub(super) fn account(&self) -> Result<Option<Account>> {
        if self.address().2.is_none() && self.service_id.is_none() {
            return Ok(None);
        }
        // Nothing is sent, so nothing is sent unencrypted.
        let Some((endpoint, service_id)) = self.endpoint(true)? else {
            return Err(self.missing(true).hint(
                "without either, the ledger is used if all of its answers are of one service",
            ));
        };
        Ok(Some(Account::of_service(&endpoint, &service_id)))
    }
}

/// Where the key is, if an option, a variable or systemd names it.
///
/// # Errors
/// Exit code 2: the variable holds no usable key.
fn find_key(file: Option<&Path>) -> Result<Option<KeySource>> {
    if let Some(file) = file {
        return Ok(Some(KeySource::File(KeyFile::new(file))));
    }
    if let Some(key) = std::env::var_os(KEY_VARIABLE).filter(|key| !key.is_empty()) {
        let origin = format!("in `{KEY_VARIABLE}`");
        let key = key.into_string().map_err(|_| unusable_key(&origin))?;
        return Ok(Some(KeySource::Variable(check_key(&key, &origin)?)));
    }
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    Ok(directory.map(|directory| KeySource::File(KeyFile::new(&directory.join(CREDENTIAL)))))
}
