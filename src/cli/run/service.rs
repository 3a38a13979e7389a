//! Who answers a run: the service with its address, identifier and key, or the stand-in.

use super::super::key;
use super::super::sources::Sources;
use super::super::values::PlanArg;
use super::RunArgs;
use crate::base::error::{Error, Result};
use crate::config::ServiceConfig;
use crate::service::{ClientSettings, Endpoint, KeyFile, Proxy, ServiceId};

impl RunArgs {
    pub(super) fn service(
        &self,
        sources: Sources<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<ServiceConfig> {
        let Self {
            timeout,
            connect_timeout,
            ..
        } = *self;
        if self.sandbox {
            refuse_address(sources)?;
            // Addresses and keys in variables are for other runs: a stand-in never gets the real key.
            return Ok(ServiceConfig::Sandbox {
                timeout,
                connect_timeout,
            });
        }
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
        let (Some(base), Some(service_id), Some((api_key, key_file))) = (base, service_id, &key)
        else {
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
                    key.is_some(),
                    "API key",
                    "--api-key-file FILE".to_owned(),
                    key::VARIABLE,
                ),
            ]));
        };
        let endpoint = Endpoint::new(base, self.allow_http).map_err(sources.in_value_of(id))?;
        let proxy = Proxy::of(&endpoint, std::env::var_os)?;
        let service_id = ServiceId::new(service_id).map_err(sources.in_value_of("service_id"))?;
        warnings.extend(key_file.as_ref().and_then(KeyFile::warning));
        Ok(ServiceConfig::Real(Box::new(ClientSettings {
            endpoint,
            api_key: api_key.clone(),
            key_file: key_file.clone(),
            service_id,
            proxy,
            timeout,
            connect_timeout,
            ca_file: self.ca_file.clone(),
        })))
    }
}

/// All that is missing at a time: nobody should have to find it out piece by piece.
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
        .hint("with `--sandbox` a built-in stand-in answers, which needs none of these")
}

/// A typed address shows that somebody means the service, whose scores would be made up.
fn refuse_address(sources: Sources<'_>) -> Result<()> {
    let address = [
        ("base_url", "--base-url"),
        ("free_base_url", "--free-base-url"),
    ];
    match address.into_iter().find(|(id, _)| sources.is_typed(id)) {
        None => Ok(()),
        Some((_, flag)) => Err(Error::usage(format!(
            "`--sandbox` and `{flag}` cannot be used together: with `--sandbox` the built-in stand-in answers, not the service"
        ))
        .hint(format!("leave out `--sandbox` to ask the service, or `{flag}` to ask the stand-in"))),
    }
}
