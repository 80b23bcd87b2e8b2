//! The TLS library, rustls or native-tls, with the options of a [`Tls`]. All drivers share it, so a
//! [`Tls`] means the same with each.

#[cfg(all(feature = "_rustls", not(feature = "tls-native")))]
use std::sync::Arc;

use super::tls::{Tls, unusable};

/// What a driver makes connections of TLS with.
#[cfg(all(feature = "_rustls", not(feature = "tls-native")))]
pub(super) type Connector = tokio_rustls::TlsConnector;

#[cfg(feature = "tls-native")]
pub(super) type Connector = tokio_native_tls::TlsConnector;

/// Without a TLS feature.
#[cfg(not(feature = "_tls"))]
#[derive(Clone)]
pub(super) enum Connector {}

#[cfg(not(feature = "_tls"))]
pub(super) fn connector(_: &Tls) -> Result<Connector, String> {
    Err(unusable("TLS", "it needs one of the features tls-rustls, tls-rustls-ring, tls-native"))
}

#[cfg(feature = "tls-native")]
pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
    use native_tls::{Certificate, Identity, TlsConnector};

    let (authorities, _) = tls.certificates(Certificate::stack_from_pem)?;
    let mut builder = TlsConnector::builder();
    builder.disable_built_in_roots(!tls.trusts_system);
    for authority in authorities {
        builder.add_root_certificate(authority);
    }
    if let Some((certificates, key)) = &tls.identity {
        let identity = Identity::from_pkcs8(certificates, key);
        builder.identity(identity.map_err(|why| unusable("the TLS client key", why))?);
    }
    builder.build().map(Connector::from).map_err(|why| unusable("TLS", why))
}

#[cfg(all(feature = "_rustls", not(feature = "tls-native")))]
pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
    use tokio_rustls::rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    };

    // rustls panics if several cryptography providers are compiled in, perhaps for other parts of
    // the program, and none is chosen. An earlier choice is kept.
    #[cfg(feature = "tls-rustls")]
    let _ = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(feature = "tls-rustls-ring")]
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();

    let read = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let (authorities, client) = tls.certificates(read)?;
    let mut roots = RootCertStore::empty();
    if tls.trusts_system {
        let system = rustls_native_certs::load_native_certs();
        let (usable, unreadable) = roots.add_parsable_certificates(system.certs);
        if usable == 0 && authorities.is_empty() {
            let why = system.errors.first().map_or("no certificate".into(), ToString::to_string);
            return Err(unusable("what the system trusts", why));
        }
        for error in system.errors {
            log!(warn, %error, "not all that the system trusts can be read");
        }
        if unreadable > 0 {
            log!(warn, unreadable, "not all that the system trusts can be read");
        }
    }
    for authority in authorities {
        roots.add(authority).map_err(|why| unusable("a TLS authority", why))?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let (Some(certificates), Some((_, key))) = (client, &tls.identity) else {
        return Ok(Arc::new(builder.with_no_client_auth()).into());
    };
    // The error might repeat a part of the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| unusable("the TLS client key", "there is no private key in it"))?;
    let config = builder.with_client_auth_cert(certificates, key);
    config
        .map(|config| Arc::new(config).into())
        .map_err(|why| unusable("the TLS client certificate with its key", why))
}
