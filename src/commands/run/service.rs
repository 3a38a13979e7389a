//! Who answers a run: the service, or the built-in stand-in.

use super::ledger::Account;
use crate::base::error::{Error, Result};
use crate::base::secret::Secret;
use crate::config::ServiceConfig;
use crate::sandbox::{self, Sandbox};
use crate::service::{Client, ClientSettings, Endpoint, Plan, ServiceId};

/// Whoever answers, before there is a client.
pub(super) struct Answerer {
    pub(super) settings: ClientSettings,
    stand_in: Option<Sandbox>,
}

/// Whoever answers, with the client that asks.
pub(super) struct ConnectedService {
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) stand_in: Option<Sandbox>,
}

impl Answerer {
    /// Starts the stand-in where it is to answer.
    pub(super) fn new(config: ServiceConfig, plan: Plan) -> Result<Self> {
        let (timeout, connect_timeout) = match config {
            ServiceConfig::Real(settings) => {
                return Ok(Self {
                    settings: *settings,
                    stand_in: None,
                });
            }
            ServiceConfig::Sandbox {
                timeout,
                connect_timeout,
            } => (timeout, connect_timeout),
        };
        let stand_in = Sandbox::start(sandbox::Settings {
            plan: match plan {
                Plan::Paid { .. } => sandbox::Plan::Paid,
                Plan::Free => sandbox::Plan::Free,
            },
            ..sandbox::Settings::default()
        })
        .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
        let settings = ClientSettings {
            endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
            api_key: Secret::new("sandbox"),
            key_file: None,
            service_id: ServiceId::new("sandbox")?,
            proxy: None,
            timeout,
            connect_timeout,
            ca_file: None,
        };
        Ok(Self {
            settings,
            stand_in: Some(stand_in),
        })
    }

    /// On whose behalf it is asked.
    pub(super) fn account(&self) -> Account {
        Account::of(&self.settings, self.stand_in.is_some())
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
