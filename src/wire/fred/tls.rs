//! TLS by rustls or native-tls, with the options of a [`Tls`].

use crate::wire::tls::{Tls, unusable};

#[cfg(feature = "_tls")]
pub(super) type Connector = fred::types::config::TlsConnector;

/// Without a TLS feature.
#[cfg(not(feature = "_tls"))]
pub(super) type Connector = std::convert::Infallible;

#[cfg(not(feature = "_tls"))]
pub(super) fn connector(_: &Tls) -> Result<Connector, String> {
    Err(unusable("TLS", "it needs one of the features tls-rustls, tls-rustls-ring, tls-native"))
}

#[cfg(feature = "tls-native")]
pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
    use fred::native_tls::{Certificate, Identity, TlsConnector};

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

#[cfg(all(any(feature = "tls-rustls", feature = "tls-rustls-ring"), not(feature = "tls-native")))]
pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
    use fred::rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    };

    // rustls panics if several cryptography providers are compiled in, perhaps for other parts of
    // the program, and none is chosen. An earlier choice is kept.
    #[cfg(feature = "tls-rustls")]
    let _ = fred::rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(feature = "tls-rustls-ring")]
    let _ = fred::rustls::crypto::ring::default_provider().install_default();

    let read = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let (mut authorities, client) = tls.certificates(read)?;
    if tls.trusts_system {
        let mut system = fred::rustls_native_certs::load_native_certs();
        if let Some(why) = system.errors.pop() {
            return Err(unusable("what the system trusts", why));
        }
        authorities.append(&mut system.certs);
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|why| unusable("a TLS authority", why))?;
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let (Some(certificates), Some((_, key))) = (client, &tls.identity) else {
        return Ok(builder.with_no_client_auth().into());
    };
    // The error might repeat a part of the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| unusable("the TLS client key", "there is no private key in it"))?;
    let config = builder.with_client_auth_cert(certificates, key);
    config
        .map(Connector::from)
        .map_err(|why| unusable("the TLS client certificate with its key", why))
}
