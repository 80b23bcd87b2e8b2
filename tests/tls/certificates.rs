//! Certificates that a test makes itself.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{RedisServer, RedisServerBuilder};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redisson_lock::rustls::{ClientConfig, RootCertStore};

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
    pub(crate) fn trusted(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a certificate");
        ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
    }

    /// Writes its certificate to a file.
    pub(crate) fn write(&self, directory: &Path) -> PathBuf {
        write(directory, "ca.pem", &self.0.pem())
    }

    /// A server that speaks TLS on this port, as this host.
    pub(crate) fn server(&self, directory: &Path, port: u16, host: &str) -> RedisServerBuilder {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a host");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let files = [
            ("--tls-ca-cert-file", self.write(directory)),
            ("--tls-cert-file", write(directory, "server.pem", &certificate.pem())),
            ("--tls-key-file", write(directory, "server.key", &key.serialize_pem())),
        ];
        let server = RedisServer::builder().arg("--tls-port").arg(port.to_string());
        let server = server.arg("--tls-auth-clients").arg("no");
        files.into_iter().fold(server, |server, (name, file)| {
            server.arg(name).arg(file.to_str().expect("a path of plain text"))
        })
    }
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("a file");
    path
}
