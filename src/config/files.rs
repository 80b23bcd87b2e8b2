//! Secrets, as a [`Config`] is read with them, and secrets and certificates that it names by file.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};

use super::Config;
use crate::{
    error::Error,
    wire::{PasswordFile, Tls},
};

impl Config {
    /// Sets the file whose text is the password to log in with. A line break at its end does not
    /// count. It replaces the URL's password. With [`password`](Self::password) it is refused.
    ///
    /// The file must be a regular one. It is read for each connection that is made. A password that
    /// is replaced on the server and in the file therefore needs no restart.
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password_file = Some(path.into());
        self
    }

    /// Sets the PEM file with the authority to trust, and no other: [`Tls::authority`]. It is read
    /// once, when a client connects.
    ///
    /// The URL must be one with TLS. With [`tls`](Self::tls) it is refused.
    pub fn tls_authority_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls_authority_file = Some(path.into());
        self
    }

    /// Sets the PEM files with the certificate to present to servers that ask for one, and with its
    /// key: [`Tls::client_certificate`]. They are read once, when a client connects.
    ///
    /// The URL must be one with TLS. With [`tls`](Self::tls) they are refused.
    pub fn tls_client_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.tls_certificate_file = Some(certificate.into());
        self.tls_key_file = Some(key.into());
        self
    }

    /// Checks that the file of the password can be read now.
    pub(super) fn check_password_file(&self) -> Result<(), Error> {
        let Some(path) = &self.password_file else { return Ok(()) };
        if self.password.is_some() {
            return Err(Error::Config("password and password_file are both set".into()));
        }
        PasswordFile::new(path.clone()).read().map(drop).map_err(Error::Config)
    }

    /// The options of TLS, with what the files say.
    pub(super) fn tls_of_files(&self, url_uses_tls: bool) -> Result<Option<Tls>, Error> {
        let files = [&self.tls_authority_file, &self.tls_certificate_file, &self.tls_key_file];
        if files.iter().all(|file| file.is_none()) {
            return Ok(self.tls.clone());
        }
        let refused = |why: &str| Err(Error::Config(format!("TLS files are set, but {why}")));
        if self.tls.is_some() {
            return refused("Config::tls is set, too");
        }
        if !url_uses_tls {
            return refused("the scheme of the URL does not begin with rediss");
        }
        let mut tls = match &self.tls_authority_file {
            Some(path) => Tls::authority(read("tls_authority_file", path)?),
            None => Tls::system(),
        };
        match (&self.tls_certificate_file, &self.tls_key_file) {
            (Some(certificate), Some(key)) => {
                let certificate = read("tls_certificate_file", certificate)?;
                tls = tls.client_certificate(certificate, read("tls_key_file", key)?);
            }
            (None, None) => {}
            _ => return refused("tls_certificate_file and tls_key_file need each other"),
        }
        Ok(Some(tls))
    }
}

/// Reads a password. serde's own errors would show a value of another type, such as a number.
pub(super) fn secret<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = Option::deserialize(value);
    text.map_err(|_| D::Error::custom("a password is no text; what it is instead is not shown"))
}

fn read(what: &str, path: &PathBuf) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| {
        Error::Config(format!("{what} {} cannot be read: {error}", path.display()))
    })
}
