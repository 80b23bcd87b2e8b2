//! Certificates that a test makes itself.

use std::fs;
use std::path::{Path, PathBuf};

use harness::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redisson_lock::Tls;

/// Somebody who says who is who.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// What a client brings that trusts nobody else.
    pub(crate) fn trusted(&self) -> Tls {
        Tls::authority(self.pem())
    }

    /// The same for one who shows a certificate.
    pub(crate) fn trusted_by(&self, who: &Certificate) -> Tls {
        self.trusted().client_certificate(who.pem(), who.key_pem())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Says that somebody is this host.
    pub(crate) fn certify(&self, host: &str) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a host");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Certificate { certificate, key }
    }

    /// Writes its certificate to a file.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        write(directory, "ca.pem", &self.pem())
    }

    /// Writes what a server needs that is this host.
    pub(crate) fn files(&self, directory: &Path, host: &str) -> TlsFiles {
        let Certificate { certificate, key } = self.certify(host);
        TlsFiles {
            authority: self.write(directory),
            certificate: write(directory, "server.pem", &certificate.pem()),
            key: write(directory, "server.key", &key.serialize_pem()),
        }
    }
}

/// By which somebody proves who it is.
pub(crate) struct Certificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Certificate {
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Writes it and its key to files of a client.
    pub(crate) fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let certificate = write(directory, "client.pem", &self.pem());
        (certificate, write(directory, "client.key", &self.key_pem()))
    }
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("a file");
    path
}
