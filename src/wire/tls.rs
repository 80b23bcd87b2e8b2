//! [`Tls`]: trusted authorities, the client certificate, and the names that certificates must have.

use std::{fmt, net::IpAddr, sync::Arc};

/// Options of TLS that a `rediss://` URL cannot express, for [`Config::tls`](crate::Config::tls):
/// trusted authorities, a client certificate, and the names that certificates must have.
///
/// All certificates and keys are PEM text, as in a `.pem` file. `{:?}` shows none of them.
///
/// # Examples
/// ```no_run
/// # fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use redisson_lock::{Config, Tls};
///
/// let tls = Tls::authority(std::fs::read("ca.pem")?)
///     .client_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?);
/// let config = Config::from_url("rediss://redis.example:6380")?.tls(tls)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing by itself: `Config::tls(tls)?`"]
pub struct Tls {
    pub(super) trusts_system: bool,
    /// PEM text with one or more certificates each.
    pub(super) authorities: Vec<Vec<u8>>,
    /// The certificate, perhaps with its chain, and its key.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) names: ServerNames,
}

type NameOf = dyn Fn(&str, u16) -> Option<String> + Send + Sync;

/// The name that a server's certificate must have.
#[derive(Clone, Default)]
pub(super) enum ServerNames {
    /// The server's host, as the URL, the cluster or the sentinels name it.
    #[default]
    Host,
    /// The first host name of the URL, if the server's host is an IP address.
    FirstHostName,
    /// The function's result for host and port. `None` stands for the host.
    By(Arc<NameOf>),
}

impl ServerNames {
    /// The name for this server. `None` stands for its host.
    pub(super) fn of<'a>(
        &self,
        host: &str,
        port: u16,
        first_name: impl FnOnce() -> Option<&'a str>,
    ) -> Option<String> {
        match self {
            Self::FirstHostName if host.parse::<IpAddr>().is_ok() => {
                first_name().map(str::to_owned)
            }
            Self::Host | Self::FirstHostName => None,
            Self::By(name) => name(host, port),
        }
    }
}

impl Tls {
    /// Trusts the system's authorities. With rustls, the file that the environment variable
    /// `SSL_CERT_FILE` names, or the directories of `SSL_CERT_DIR`, are read **instead**. What is no
    /// certificate there is left out.
    pub fn system() -> Self {
        Self {
            trusts_system: true,
            authorities: Vec::new(),
            identity: None,
            names: ServerNames::Host,
        }
    }

    /// Trusts this authority and no other. If the PEM contains several certificates, each is
    /// trusted.
    pub fn authority(pem: impl Into<Vec<u8>>) -> Self {
        Self { trusts_system: false, ..Self::system() }.and_authority(pem)
    }

    /// Trusts this authority as well.
    pub fn and_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(pem.into());
        self
    }

    /// Presents this certificate to servers that ask for one (`tls-auth-clients`). Certificates of
    /// intermediate authorities may follow it in the PEM. With `tls-native` the key must be PKCS #8
    /// (`BEGIN PRIVATE KEY`).
    pub fn client_certificate(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// For a server whose host is an IP address, expects the first host name of the URL in its
    /// certificate.
    ///
    /// Use it for clusters and sentinels that name their servers by IP address, if the certificates
    /// contain none. Servers that announce host names (`cluster-announce-hostname`, `sentinel
    /// announce-hostnames`) do not need it.
    pub fn name_of_first_host(mut self) -> Self {
        self.names = ServerNames::FirstHostName;
        self
    }

    /// For a server at this host and port, expects the name that the function returns in its
    /// certificate. `None` stands for the host.
    ///
    /// The function is called when a server is first connected to at an address, and must not block.
    /// Connections to it that break are made again with the same name. In a cluster that holds as
    /// long as the address belongs to it: the name must then depend on the address alone.
    pub fn server_names(
        mut self,
        name: impl Fn(&str, u16) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.names = ServerNames::By(Arc::new(name));
        self
    }
}

#[cfg(feature = "_tls")]
impl Tls {
    /// Reads the certificates of the authorities and of the client, by a function of a TLS library.
    pub(super) fn certificates<C, E: fmt::Display>(
        &self,
        read: impl Fn(&[u8]) -> Result<Vec<C>, E>,
    ) -> Result<(Vec<C>, Option<Vec<C>>), String> {
        let read = |what, pem: &[u8]| match read(pem) {
            Ok(none) if none.is_empty() => Err(unusable(what, "there is no certificate in it")),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(unusable(what, error)),
        };
        let mut authorities = Vec::new();
        for pem in &self.authorities {
            authorities.extend(read("a TLS authority", pem)?);
        }
        let client = self.identity.as_ref().map(|(pem, _)| read("the TLS client certificate", pem));
        Ok((authorities, client.transpose()?))
    }
}

/// The text of an error about a part of a [`Tls`].
pub(super) fn unusable(what: &str, why: impl fmt::Display) -> String {
    format!("{what} cannot be used: {why}")
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("trusts_system", &self.trusts_system)
            .field("authorities", &self.authorities.len())
            .field("client_certificate", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_the_host_or_what_the_user_says() {
        let first = || Some("redis.example");
        for host in ["10.0.0.1", "::1", "a.example"] {
            assert_eq!(ServerNames::Host.of(host, 1, first), None);
        }
        for host in ["10.0.0.1", "::1"] {
            let name = ServerNames::FirstHostName.of(host, 1, first);
            assert_eq!(name.as_deref(), Some("redis.example"));
        }
        assert_eq!(ServerNames::FirstHostName.of("a.example", 1, first), None);
        assert_eq!(ServerNames::FirstHostName.of("10.0.0.1", 1, || None), None);
        let by = Tls::system().server_names(|host, port| Some(format!("{host}-{port}"))).names;
        assert_eq!(by.of("a.example", 1, first).as_deref(), Some("a.example-1"));
        assert_eq!(by.of("10.0.0.1", 1, first).as_deref(), Some("10.0.0.1-1"));
    }

    #[test]
    fn no_key_is_shown() {
        let tls = Tls::authority("s3cret").client_certificate("s3cret", "s3cret");
        assert!(!format!("{tls:?}").contains("s3cret"), "{tls:?}");
    }
}
