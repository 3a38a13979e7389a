//! The arguments that say how the service is reached, with which key.

use std::path::PathBuf;

use clap::Args;

use super::account::{AccountArgs, MissingSetting, SERVICE};
use super::key;
use super::sources::Sources;
use crate::base::error::Result;
use crate::config::{KeySource, RealService, ServiceConfig};
use crate::service::{Plan, check_proxies};

// A doc comment would be taken for the help of `run`.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct ServiceArgs {
    #[command(flatten)]
    account: AccountArgs,
    /// Read the API key from this file instead of the variable RESCORE_API_KEY
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    api_key_file: Option<PathBuf>,
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
        self.account.plan()
    }

    /// The service, with everything that a call needs.
    ///
    /// # Errors
    /// Something is missing or not valid.
    pub(super) fn config(&self, sources: Sources<'_>) -> Result<ServiceConfig> {
        let key = key::find(self.api_key_file.as_deref())?;
        let given = self.account.given();
        let mut missing = given.missing();
        if key.is_none() && !missing.is_empty() {
            missing.push(MissingSetting {
                what: "API key",
                option: "--api-key-file FILE".to_owned(),
                variable: key::VARIABLE,
            });
        }
        let account = if missing.is_empty() {
            given.parse(self.allow_http, sources)?
        } else {
            None
        };
        let Some((endpoint, service_id)) = account else {
            return Err(MissingSetting::error(&missing)
                .hint("`--sandbox` uses a built-in stand-in, which needs no address, id or key"));
        };
        check_proxies(&endpoint, std::env::var_os)?;
        Ok(ServiceConfig::Real(Box::new(RealService {
            endpoint,
            key: key.unwrap_or(KeySource::Nowhere),
            service_id,
            ca_file: self.ca_file.clone(),
        })))
    }
}
