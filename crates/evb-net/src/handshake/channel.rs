//! [`Channel`]: a TCP connection, and the session that protects it.

use tokio::net::TcpStream;

use evb_core::wire::{
    control::{Hello, HelloReply, Welcome},
    preamble::ConnectionKind,
};

use super::{HandshakeError, accept_secured, answer, connect_secured, reply_secured};
use crate::security::{Keys, Security, Session};

/// A TCP connection, with its session if a key protects the connection.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    session: Option<Session>,
}

impl From<TcpStream> for Channel {
    /// Creates an unprotected channel.
    fn from(stream: TcpStream) -> Self {
        Self { stream, session: None }
    }
}

impl AsRef<TcpStream> for Channel {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Channel {
    /// Performs the handshake as the connecting side.
    ///
    /// # Errors
    /// Returns a [`HandshakeError`]; the connection is closed.
    pub async fn connect(
        mut stream: TcpStream,
        kind: ConnectionKind,
        hello: &Hello,
        security: &Security,
    ) -> Result<(Self, Welcome), HandshakeError> {
        check_address(&stream, security)?;
        let (session, welcome) = connect_secured(&mut stream, kind, hello, security).await?;
        Ok((Self { stream, session }, welcome))
    }

    /// Reads the peer's `Hello` as the accepting side; [`reply`](Self::reply) answers it.
    ///
    /// # Errors
    /// Returns a [`HandshakeError`]; the connection is closed, and a peer that speaks the evb
    /// protocol is told the reason.
    pub async fn accept(
        mut stream: TcpStream,
        kind: ConnectionKind,
        security: &Security,
    ) -> Result<(Self, Hello), HandshakeError> {
        check_address(&stream, security)?;
        let (session, hello) = accept_secured(&mut stream, kind, security).await?;
        Ok((Self { stream, session }, hello))
    }

    /// Sends the accepting side's answer to the peer's `Hello`.
    ///
    /// # Errors
    /// Returns the connection's error, or [`HandshakeError::Timeout`].
    pub async fn reply(&mut self, kind: ConnectionKind, reply: &HelloReply) -> Result<(), HandshakeError> {
        reply_secured(&mut self.stream, kind, &mut self.session, reply).await
    }

    /// Sends the refusal `reply` as far as the socket takes it without waiting, and closes the
    /// connection.
    pub fn refuse(mut self, kind: ConnectionKind, reply: &HelloReply) {
        if let Ok(bytes) = answer(kind, &mut self.session, reply) {
            // A failure is ignored: little has been written on this connection before, so the
            // answer fits the socket's buffer unless the connection is broken.
            let _ = self.stream.try_write(&bytes);
        }
    }

    /// Returns the keys of the connection's lane; `None` if no key protects the connection.
    pub fn keys(&self) -> Option<&Keys> {
        self.session.as_ref().map(Session::keys)
    }

    /// Returns the TCP connection and the session.
    pub fn into_parts(self) -> (TcpStream, Option<Session>) {
        (self.stream, self.session)
    }
}

/// Refuses a peer on another host where connections cannot be protected.
fn check_address(stream: &TcpStream, security: &Security) -> Result<(), HandshakeError> {
    let peer = stream.peer_addr()?.ip();
    if security.allows(peer) { Ok(()) } else { Err(HandshakeError::NotLoopback(peer)) }
}
