//! A [`Tls`], as rustls or native-tls is told of it.

use crate::wire::tls::Tls;

/// How TLS connections are made. It has read all that a [`Tls`] says.
#[derive(Clone)]
pub(crate) struct Connector(by::Connector);

impl Connector {
    /// An error says what of it cannot be used, and repeats nothing of it.
    pub(in crate::wire) fn new(tls: &Tls) -> Result<Self, String> {
        by::connector(tls).map(Self)
    }

    #[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
    pub(super) fn for_fred(&self) -> fred::types::config::TlsConfig {
        self.0.clone().into()
    }
}

fn unusable(what: &str, why: impl std::fmt::Display) -> String {
    format!("{what} cannot be used: {why}")
}

#[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
mod words {
    pub(super) const AUTHORITY: &str = "the PEM of a TLS authority";
    pub(super) const CERTIFICATE: &str = "the PEM of the TLS client certificate";
    pub(super) const KEY: &str = "the PEM of the TLS client key";
    pub(super) const NO_CERTIFICATE: &str = "there is no certificate in it";
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native")))]
mod by {
    use crate::wire::tls::Tls;

    pub(super) type Connector = std::convert::Infallible;

    pub(super) fn connector(_: &Tls) -> Result<Connector, String> {
        let why = "none of the features tls-rustls, tls-rustls-ring, tls-native is compiled in";
        Err(super::unusable("TLS", why))
    }
}

#[cfg(feature = "tls-native")]
mod by {
    use fred::native_tls::{Certificate, Identity, TlsConnector};

    use super::{
        unusable,
        words::{AUTHORITY, CERTIFICATE, KEY, NO_CERTIFICATE},
    };
    use crate::wire::tls::Tls;

    pub(super) type Connector = fred::types::config::TlsConnector;

    pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
        let mut builder = TlsConnector::builder();
        builder.disable_built_in_roots(!tls.trusts_system);
        for pem in &tls.authorities {
            let known = certificates(pem).map_err(|why| unusable(AUTHORITY, why))?;
            for authority in known {
                builder.add_root_certificate(authority);
            }
        }
        if let Some(identity) = &tls.identity {
            certificates(&identity.certificates).map_err(|why| unusable(CERTIFICATE, why))?;
            let identity = Identity::from_pkcs8(&identity.certificates, &identity.key);
            builder.identity(identity.map_err(|why| unusable(KEY, why))?);
        }
        let connector = builder.build().map_err(|why| unusable("TLS", why))?;
        Ok(connector.into())
    }

    fn certificates(pem: &[u8]) -> Result<Vec<Certificate>, String> {
        match Certificate::stack_from_pem(pem) {
            Ok(none) if none.is_empty() => Err(NO_CERTIFICATE.into()),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(all(any(feature = "tls-rustls", feature = "tls-rustls-ring"), not(feature = "tls-native")))]
mod by {
    use fred::{
        rustls::{
            ClientConfig, RootCertStore,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        },
        rustls_native_certs::load_native_certs,
    };

    use super::{
        unusable,
        words::{AUTHORITY, CERTIFICATE, KEY, NO_CERTIFICATE},
    };
    use crate::wire::tls::Tls;

    pub(super) type Connector = fred::types::config::TlsConnector;

    pub(super) fn connector(tls: &Tls) -> Result<Connector, String> {
        choose_cryptography();
        let mut roots = RootCertStore::empty();
        if tls.trusts_system {
            let system = load_native_certs();
            if let Some(error) = system.errors.first() {
                return Err(unusable("what the system trusts", error));
            }
            for authority in system.certs {
                roots.add(authority).map_err(|why| unusable("what the system trusts", why))?;
            }
        }
        for pem in &tls.authorities {
            for authority in certificates(pem).map_err(|why| unusable(AUTHORITY, why))? {
                roots.add(authority).map_err(|why| unusable(AUTHORITY, why))?;
            }
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificates)
                    .map_err(|why| unusable(CERTIFICATE, why))?;
                let key = PrivateKeyDer::from_pem_slice(&identity.key)
                    .map_err(|_| unusable(KEY, "there is no private key in it"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|why| unusable("the TLS client certificate with its key", why))?
            }
        };
        Ok(config.into())
    }

    fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match certificates {
            Ok(none) if none.is_empty() => Err(NO_CERTIFICATE.into()),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(error.to_string()),
        }
    }

    /// rustls panics where several sorts of cryptography are compiled in, for other parts of the program perhaps, and none
    /// is chosen. A choice that was made stands.
    fn choose_cryptography() {
        #[cfg(feature = "tls-rustls")]
        let _ = fred::rustls::crypto::aws_lc_rs::default_provider().install_default();
        #[cfg(feature = "tls-rustls-ring")]
        let _ = fred::rustls::crypto::ring::default_provider().install_default();
    }
}
