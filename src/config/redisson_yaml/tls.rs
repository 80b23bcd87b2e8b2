//! The fields about certificates. TLS itself is switched on by an address.

use super::fields::{Fields, Text};
use crate::error::Error;

const STORES: [&str; 2] = ["sslTruststore", "sslKeystore"];

const ABOUT_STORES: [&str; 3] = ["sslTruststorePassword", "sslKeystorePassword", "sslKeystoreType"];

/// Refuses what this crate would do otherwise than Redisson. If the fields do not count, they are
/// only told.
pub(super) fn check(
    top: &mut Fields,
    section: &mut Fields,
    they_count: bool,
    unused: &mut Vec<String>,
) -> Result<(), Error> {
    for fields in [top, section] {
        if they_count {
            check_one(fields)?;
        }
        let names = ["sslVerificationMode", "sslEnableEndpointIdentification"];
        for name in names.into_iter().chain(STORES).chain(ABOUT_STORES) {
            if fields.take(name).is_some() {
                unused.push(fields.named(name));
            }
        }
    }
    Ok(())
}

fn check_one(fields: &mut Fields) -> Result<(), Error> {
    if let Some(Text { text, place }) = fields.text("sslVerificationMode")?
        && text != "STRICT"
    {
        let why = "must be STRICT: this crate checks certificates and their names. Config::from_redisson_yaml_with_tls \
                   sets other names";
        return Err(fields.wrong(place, "sslVerificationMode", why));
    }
    let place = fields.place("sslEnableEndpointIdentification");
    if let (Some(place), Some(false)) = (place, fields.flag("sslEnableEndpointIdentification")?) {
        let why = "must be true: this crate checks certificates and their names";
        return Err(fields.wrong(place, "sslEnableEndpointIdentification", why));
    }
    for name in STORES {
        if let Some(node) = fields.take(name) {
            let why = "is a Java key store, which this crate cannot read: convert it to PEM, and use \
                       Config::from_redisson_yaml_with_tls";
            return Err(fields.wrong(node.place, name, why));
        }
    }
    Ok(())
}
