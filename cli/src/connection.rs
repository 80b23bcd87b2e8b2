//! The configuration of the servers, and the connection to them.

use std::{env, fs, path::Path};

use redisson_lock::{Client, Config};

use crate::{
    args::Servers,
    outcome::{CONFIG, Failure, USAGE},
};

/// The configuration that the command line or `REDIS_URL` names. `--config` and `--redis` come
/// before the variable.
pub(crate) fn config(servers: &Servers) -> Result<Config, Failure> {
    let config = match (&servers.redis, &servers.config) {
        (Some(url), _) => Config::from_url(url)
            .map_err(|error| Failure::new(USAGE, format!("--redis: {error}")))?,
        (None, Some(file)) => read(file)?,
        (None, None) => match env::var("REDIS_URL") {
            Ok(url) if !url.is_empty() => Config::from_url(url)
                .map_err(|error| Failure::new(USAGE, format!("REDIS_URL: {error}")))?,
            _ => {
                return Err(Failure::new(
                    USAGE,
                    "no server is named: give --redis URL or --config FILE, or set REDIS_URL",
                ));
            }
        },
    };
    // A lazy connection would hide that there is no server.
    Ok(config.lazy_connect(false))
}

fn read(file: &Path) -> Result<Config, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::new(CONFIG, format!("--config {}: {why}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    if file.extension().is_some_and(|ending| ending == "json") {
        return serde_json::from_str(&text).map_err(|error| wrong(&error));
    }
    Config::from_redisson_yaml(&text).map_err(|error| wrong(&error))
}

pub(crate) async fn connect(config: &Config) -> Result<Client, Failure> {
    Ok(Client::connect(config.clone()).await?)
}
