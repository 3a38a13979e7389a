//! What answers the calls of a run: the service, or the built-in stand-in.

use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::base::secret::Secret;
use crate::config::{KeySource, RealService, ServiceConfig};
use crate::sandbox::{self, Sandbox};
use crate::service::{
    Account, Client, ClientSettings, Endpoint, KeyFile, Plan, SANDBOX_ID, ServiceId,
};

/// The service or the stand-in, before there is a client.
pub(super) struct Answerer {
    pub(super) settings: ClientSettings,
    stand_in: Option<Sandbox>,
    /// A warning about the key's file.
    pub(super) warning: Option<String>,
}

/// The service or the stand-in, with the client that calls it.
pub(super) struct ConnectedService {
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) stand_in: Option<Sandbox>,
}

impl Answerer {
    /// Reads the key of the service, or starts the stand-in.
    ///
    /// # Errors
    /// Exit code 2: there is no usable key. Exit code 3: the stand-in cannot be started.
    pub(super) fn new(config: ServiceConfig, plan: Plan, timeout: Duration) -> Result<Self> {
        match config {
            ServiceConfig::Real(service) => Self::of_service(*service, timeout),
            ServiceConfig::Sandbox => Self::of_stand_in(plan, timeout),
        }
    }

    /// Whether the stand-in answers.
    pub(super) const fn is_sandbox(&self) -> bool {
        self.stand_in.is_some()
    }

    fn of_service(service: RealService, timeout: Duration) -> Result<Self> {
        let (api_key, key_file) = match service.key {
            KeySource::Variable(key) => (key, None),
            KeySource::Nowhere => return Err(no_key()),
            KeySource::Credential(file) if !file.path().exists() => return Err(no_key()),
            KeySource::File(file) | KeySource::Credential(file) => (file.read()?, Some(file)),
        };
        Ok(Self {
            warning: key_file.as_ref().and_then(KeyFile::warning),
            settings: ClientSettings {
                endpoint: service.endpoint,
                api_key,
                key_file,
                service_id: service.service_id,
                timeout,
                ca_file: service.ca_file,
            },
            stand_in: None,
        })
    }

    fn of_stand_in(plan: Plan, timeout: Duration) -> Result<Self> {
        let stand_in = Sandbox::start(sandbox::SandboxSettings {
            plan: match plan {
                Plan::Paid { .. } => sandbox::SandboxPlan::Paid,
                Plan::Free => sandbox::SandboxPlan::Free,
            },
            ..sandbox::SandboxSettings::default()
        })
        .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
        let settings = ClientSettings {
            endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
            api_key: Secret::new("sandbox"),
            key_file: None,
            service_id: ServiceId::new(SANDBOX_ID)?,
            timeout,
            ca_file: None,
        };
        Ok(Self {
            settings,
            stand_in: Some(stand_in),
            warning: None,
        })
    }

    /// The account that it is asked for.
    pub(super) fn account(&self) -> Account {
        match &self.stand_in {
            Some(_) => Account::of_sandbox(),
            None => Account::of_service(&self.settings.endpoint, &self.settings.service_id),
        }
    }

    /// Makes the client.
    ///
    /// # Errors
    /// Exit code 2: its certificate authority cannot be used.
    pub(super) fn connect(self) -> Result<ConnectedService> {
        let endpoint = self.settings.endpoint.clone();
        Ok(ConnectedService {
            client: Client::new(self.settings)?,
            endpoint,
            stand_in: self.stand_in,
        })
    }
}

/// Nothing names a key, and systemd's credentials have none.
fn no_key() -> Error {
    Error::usage("no API key")
        .detail(
            "API key: give `--api-key-file FILE`, set the variable `RESCORE_API_KEY`, or load the systemd credential `rescore-api-key`",
        )
        .hint("`--sandbox` uses a built-in stand-in, which needs no key")
}
