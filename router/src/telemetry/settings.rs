//! The settings of logs and traces, from the configuration.

use super::{Error, Format, Hidden, Otlp, Settings};
use crate::config::{self, ConfigFile, LogFormat};

impl Settings {
    /// Takes the settings of a configuration, and reads the secrets among them.
    ///
    /// # Errors
    /// When a secret is not there.
    pub fn of(config: &ConfigFile) -> Result<Self, Error> {
        let settings = &config.telemetry;
        let header = |(name, source): (&String, &crate::secret::Source)| {
            let value = source.read(name, config::variable).map_err(|error| Error::Otlp {
                what: format!("the header {name}"),
                problem: error.to_string(),
            })?;
            Ok((name.clone(), Hidden::new(value)))
        };
        let otlp = match &settings.otlp_endpoint {
            None => None,
            Some(endpoint) => Some(Otlp {
                endpoint: endpoint.clone(),
                service_name: settings.service_name.clone(),
                sample_ratio: settings.sample_ratio,
                headers: settings.headers.iter().map(header).collect::<Result<_, _>>()?,
            }),
        };
        let format = match config.log.format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        Ok(Self { level: config.log.level.clone(), format, otlp })
    }
}
