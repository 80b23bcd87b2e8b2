//! The certificates of a server with TLS.

use std::ffi::OsString;
use std::path::PathBuf;

/// What a server proves by who it is, and whom it trusts: files, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate of the authority that says who is who.
    pub authority: PathBuf,
    /// The server's own.
    pub certificate: PathBuf,
    /// The key to it.
    pub key: PathBuf,
}

impl TlsFiles {
    pub(crate) fn arguments(&self, port: u16) -> [OsString; 10] {
        let port = port.to_string();
        [
            "--tls-port".into(),
            port.into(),
            "--tls-ca-cert-file".into(),
            self.authority.clone().into(),
            "--tls-cert-file".into(),
            self.certificate.clone().into(),
            "--tls-key-file".into(),
            self.key.clone().into(),
            "--tls-replication".into(),
            "yes".into(),
        ]
    }
}
