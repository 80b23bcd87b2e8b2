//! [`Config::from_redisson_yaml`]: the YAML file of a Redisson client as a configuration of this
//! crate.
//!
//! | file | concept |
//! |---|---|
//! | `variables` | environment variables in the text |
//! | `document` | YAML as a tree of texts with places |
//! | `fields` | the fields of a section and their types |
//! | `names` | which names are read, which are known and have no meaning here, and hints at typing errors |
//! | `servers` | the fields of the sections that name servers |
//! | `tls` | the fields about certificates |
//!
//! This file reads the fields at the top, `servers` those of a section. A new field is read there, and
//! needs its name in `names` and its row in the table below.

mod document;
mod fields;
mod names;
mod servers;
mod tls;
mod variables;

use std::time::Duration;

use self::{
    document::{Node, Place},
    fields::Fields,
    names::{MODES, Section, UNUSED_ANYWHERE, UNUSED_AT_TOP, UNUSED_OF_MODE},
    servers::Servers,
};
use super::{Config, settings};
use crate::{
    error::Error,
    options::Replicas,
    wire::{Credentials, Tls},
};

const MS: Duration = Duration::from_millis(1);

impl Config {
    /// Reads the YAML file of a Redisson client, so that both lock the same keys on the same
    /// servers.
    ///
    /// | Redisson | here |
    /// |---|---|
    /// | `singleServerConfig`, `clusterServersConfig`, `sentinelServersConfig` | [`from_url`](Self::from_url) |
    /// | `username`, `password`, at the top or in the section or in an address | [`username`](Self::username), [`password`](Self::password) |
    /// | `sentinelUsername`, `sentinelPassword` | [`sentinel_username`](Self::sentinel_username), [`sentinel_password`](Self::sentinel_password); without them, `password` |
    /// | `database` | the URL's path |
    /// | `lazyInitialization` | [`lazy_connect`](Self::lazy_connect) |
    /// | `lockWatchdogTimeout` | [`watchdog`](Self::watchdog) |
    /// | `fairLockWaitTimeout` | [`redisson_fair_wait`](Self::redisson_fair_wait) |
    /// | `timeout` | [`command_timeout`](Self::command_timeout) |
    /// | `checkLockSyncedSlaves` (by default `true`), where there is more than one server | [`replicas`](Self::replicas): [`Replicas::OneOfAll`] |
    /// | `slavesSyncTimeout` | [`replica_timeout`](Self::replica_timeout) |
    /// | `shardedSubscriptionMode` | [`sharded_pubsub`](Self::sharded_pubsub) |
    /// | `natMap`, `natMapper` with a `HostNatMapper` or a `HostPortNatMapper` | [`nat_map`](Self::nat_map) |
    /// | `sslVerificationMode: STRICT` | as always here |
    ///
    /// `${NAME}` and `${NAME:-default}` are replaced by environment variables, as Redisson replaces
    /// them. One line of the log, at the level `info`, names the fields that are in the file and
    /// have no use here, such as pool sizes and codecs.
    ///
    /// Add a prefix by [`Config::prefix`] where the Java services set a `nameMapper` in their code.
    ///
    /// # Errors
    /// [`Error::Config`] with the line, the column and the name of the field:
    /// - when the file is not YAML, a field is unknown to Redisson 4 or 3, or a value is not of its
    ///   field's type.
    /// - when a variable in a field that is used has no value.
    /// - when a field would change which key is locked, or who may connect, and this crate cannot
    ///   do it: `nameMapper`, `commandMapper`, `credentialsResolver`, `sslTruststore`,
    ///   `sslKeystore`, another `sslVerificationMode`, `masterSlaveServersConfig`,
    ///   `replicatedServersConfig`, and passwords that Redisson PRO encrypted.
    ///
    /// The error repeats no secret.
    ///
    /// # Examples
    /// ```
    /// let yaml = r#"
    /// singleServerConfig:
    ///   address: "redis://${REDIS_HOST:-127.0.0.1}:6379"
    /// lockWatchdogTimeout: 20000
    /// "#;
    /// let config = redisson_lock::Config::from_redisson_yaml(yaml)?;
    /// # Ok::<(), redisson_lock::Error>(())
    /// ```
    pub fn from_redisson_yaml(yaml: &str) -> Result<Self, Error> {
        read(yaml, false, |name| std::env::var(name).ok())
    }

    /// Reads the YAML file of a Redisson client, as [`from_redisson_yaml`](Self::from_redisson_yaml)
    /// does, for servers with TLS. These [`Tls`] replace `sslTruststore`, `sslKeystore` and the
    /// other fields about certificates: Java's stores cannot be read here. `openssl pkcs12` and
    /// `keytool` convert them to PEM.
    ///
    /// # Errors
    /// As [`from_redisson_yaml`](Self::from_redisson_yaml) and [`tls`](Self::tls).
    pub fn from_redisson_yaml_with_tls(yaml: &str, tls: Tls) -> Result<Self, Error> {
        read(yaml, true, |name| std::env::var(name).ok())?.tls(tls)
    }
}

fn read(
    yaml: &str,
    has_tls: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Config, Error> {
    let text = variables::replaced(yaml, variable);
    let document = Node::read(&text)?.filter(|node| !node.is_null());
    let document = document.ok_or_else(|| Place::START.error("the file is empty"))?;
    let mut top = Fields::of(document, "", yaml.into())?;
    // Before a field is missed that is there, but spelled otherwise.
    top.refuse_unknown(Section::Top)?;
    let (mode, node) = mode(&mut top)?;
    let place = node.place;
    let mut section = top.section(node, &format!("{mode}."))?;
    if servers::is_mode_of_this_crate(mode) {
        section.refuse_unknown(Section::Mode(mode))?;
    }
    let servers = servers::read(mode, place, &mut section)?;
    for fields in [&mut top, &mut section] {
        servers::refuse_code(fields)?;
    }
    let mut unused = Vec::new();
    let uses_tls = servers.url.starts_with("rediss");
    tls::check(&mut top, &mut section, uses_tls && !has_tls, &mut unused)?;
    let mut config = Config::from_url(&servers.url)?;
    config.nat_map = servers.nat.clone();
    config.sharded_pubsub = servers.sharded_pubsub;
    log_in(&mut config, &servers, &mut top, &mut section)?;
    read_times(&mut config, &servers, &mut top, &mut section)?;
    config.lazy_connect = top.flag("lazyInitialization")?.unwrap_or(false);
    section.finish(&[UNUSED_ANYWHERE, UNUSED_OF_MODE].concat(), &mut unused)?;
    top.finish(&[UNUSED_ANYWHERE, UNUSED_AT_TOP].concat(), &mut unused)?;
    if !unused.is_empty() {
        let unused = unused.join(", ");
        log!(info, unused, "fields of Redisson's YAML that have no use here");
    }
    Ok(config)
}

/// The section that names the servers.
fn mode(top: &mut Fields) -> Result<(&'static str, Node), Error> {
    let mut modes = MODES.into_iter().filter_map(|mode| Some((mode, top.take(mode)?)));
    let (first, second) = (modes.next(), modes.next());
    match (first, second) {
        (Some(first), None) => Ok(first),
        (Some((first, _)), Some((second, node))) => Err(node.place.error(format_args!(
            "{second} stands beside {first}, but only one may name the servers"
        ))),
        (None, _) => Err(Place::START.error(format_args!(
            "no section names the servers; this crate reads {}, {} and {}",
            MODES[0], MODES[1], MODES[2]
        ))),
    }
}

/// An address wins over the top level, and that over the section. User and password are looked up
/// apart.
fn log_in(
    config: &mut Config,
    servers: &Servers,
    top: &mut Fields,
    section: &mut Fields,
) -> Result<(), Error> {
    let mut found = servers.credentials.clone();
    for fields in [top, section] {
        let username = fields.text("username")?.map(|text| text.text);
        let password = match fields.text("password")? {
            Some(text) if text.text.starts_with("{aes}") => {
                let why = "is encrypted by Redisson PRO, which this crate cannot undo";
                return Err(fields.wrong(text.place, "password", why));
            }
            text => text.map(|text| text.text),
        };
        found = found.or(Credentials { username, password });
    }
    // Redisson logs nobody in without a password. It may still be set beside the file.
    match found.password.is_some() {
        true => config.username = found.username,
        false => config.username_with_password = found.username,
    }
    config.password = found.password;
    if let Some(Credentials { username, password }) = servers.sentinel_credentials.clone() {
        config.sentinel_username = username.filter(|_| password.is_some());
        // Without one of their own, sentinels are told that of the servers, but never its user.
        config.sentinel_password = password.or_else(|| config.password.clone());
    }
    Ok(())
}

fn read_times(
    config: &mut Config,
    servers: &Servers,
    top: &mut Fields,
    section: &mut Fields,
) -> Result<(), Error> {
    let set = |to: &mut Duration, fields: &mut Fields, name, limits| {
        if let Some(time) = fields.time(name, limits)? {
            *to = time;
        }
        Ok::<(), Error>(())
    };
    set(&mut config.watchdog, top, "lockWatchdogTimeout", settings::WATCHDOG)?;
    set(&mut config.redisson_fair_wait, top, "fairLockWaitTimeout", settings::REDISSON_FAIR_WAIT)?;
    set(&mut config.command_timeout, section, "timeout", settings::COMMAND_TIMEOUT)?;
    let most = config.command_timeout.saturating_sub(MS);
    let confirms = top.flag("checkLockSyncedSlaves")?.unwrap_or(true) && servers.confirms;
    let limits = if confirms { (MS, most) } else { (Duration::ZERO, Duration::MAX) };
    set(&mut config.replica_timeout, top, "slavesSyncTimeout", limits)?;
    if confirms {
        config.replicas = Replicas::OneOfAll;
        if config.replica_timeout > most {
            // It is Redisson's default, and `timeout` is shorter.
            config.replica_timeout = most;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
