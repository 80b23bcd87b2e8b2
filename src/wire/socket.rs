//! Sockets: TCP, TLS over it, or a Unix socket.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::{
    answers::{Failure, FailureKind},
    deployment::{Endpoint, Place},
    tls_library::Connector,
};

/// Why a connection ended. The form is that of [`RedisError`](crate::RedisError)'s source.
pub(super) fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::new(FailureKind::Gone, "the server closed the connection")
        }
        _ => Failure::new(FailureKind::Gone, format!("{error:?}")),
    }
}

/// An open socket.
pub(super) type Socket = Box<dyn Stream>;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// After how long without traffic the system asks whether the peer is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

pub(super) async fn open(endpoint: &Endpoint, tls: Option<Connector>) -> Result<Socket, Failure> {
    let address = match &endpoint.place {
        Place::UnixSocket(path) => {
            let socket = UnixStream::connect(path).await.map_err(|error| broken(&error))?;
            return Ok(Box::new(socket));
        }
        Place::Tcp(address) => address,
    };
    let tcp = async {
        let socket = TcpStream::connect((&*address.host, address.port)).await?;
        socket.set_nodelay(true)?;
        SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
        Ok(socket)
    };
    let tcp = tcp.await.map_err(|error| broken(&error))?;
    match tls {
        None => Ok(Box::new(tcp)),
        Some(tls) => {
            let name = endpoint.certified_for.as_ref().unwrap_or(&address.host);
            secure(tls, name, tcp).await
        }
    }
}

#[cfg(all(feature = "_rustls", not(feature = "tls-native")))]
async fn secure(tls: Connector, name: &str, tcp: TcpStream) -> Result<Socket, Failure> {
    let name = tokio_rustls::rustls::pki_types::ServerName::try_from(name.to_owned())
        .map_err(|_| Failure::of_tls(format!("no certificate can be for {name:?}")))?;
    match tls.connect(name, tcp).await {
        Ok(socket) => Ok(Box::new(socket)),
        // It says why no handshake is possible. Another try does not help.
        Err(error)
            if error.get_ref().is_some_and(|why| why.is::<tokio_rustls::rustls::Error>()) =>
        {
            Err(Failure::of_tls(format!("{error:?}")))
        }
        Err(error) => Err(broken(&error)),
    }
}

#[cfg(feature = "tls-native")]
async fn secure(tls: Connector, name: &str, tcp: TcpStream) -> Result<Socket, Failure> {
    match tls.connect(name, tcp).await {
        Ok(socket) => Ok(Box::new(socket)),
        Err(error) => Err(Failure::of_tls(error.to_string())),
    }
}

#[cfg(not(feature = "_tls"))]
async fn secure(tls: Connector, _: &str, _: TcpStream) -> Result<Socket, Failure> {
    match tls {}
}

#[cfg(all(test, feature = "_rustls", not(feature = "tls-native")))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::wire::{tls::Tls, tls_library, url::read_url};

    /// As when the server is restarted then. A client that connects again goes on.
    #[tokio::test]
    async fn a_connection_that_ends_in_the_handshake_is_no_error_of_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("rediss://{}", listener.local_addr().unwrap());
        let endpoint = read_url(&url).unwrap().single().unwrap();
        let tls = tls_library::connector(&Tls::system()).unwrap();
        let (failure, _) = tokio::join!(open(&endpoint, Some(tls)), async {
            drop(listener.accept().await.unwrap());
        });
        assert_eq!(failure.err().expect("no server is there").kind, FailureKind::Gone);
    }
}
