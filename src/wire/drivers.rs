//! Makes the driver that a user chose by `Config::driver`.

use std::sync::Arc;

#[cfg(feature = "fred")]
use super::fred::FredDriver;
#[cfg(feature = "redis-rs")]
use super::redis_rs::RedisRsDriver;
use super::{connection, tls::Tls, tls_library::connector};
use crate::options::Driver;

/// The driver, with or without TLS. An error names the part of the [`Tls`] that cannot be used.
pub(super) fn new(
    driver: Driver,
    tls: Option<&Tls>,
) -> Result<Arc<dyn connection::Driver>, String> {
    let tls = tls.map(connector).transpose()?;
    Ok(match driver {
        #[cfg(feature = "fred")]
        Driver::Fred => Arc::new(FredDriver::new(tls)),
        #[cfg(feature = "redis-rs")]
        Driver::RedisRs => Arc::new(RedisRsDriver::new(tls)),
    })
}
