//! A connection between two peers that a test can cut: while it is cut, no bytes of existing
//! connections get through.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    time::sleep,
};

/// A relay for connections that can be cut.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    /// Address at which the cable accepts connections.
    pub(crate) address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

impl Cable {
    /// Creates a cable that leads to `to`.
    pub(crate) async fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
        let address = listener.local_addr().expect("a bound socket");
        let cable = Self { address, is_cut: Arc::default(), connections: Arc::default() };
        let (is_cut, connections) = (Arc::clone(&cable.is_cut), Arc::clone(&cable.connections));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(to).await else { continue };
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                tokio::spawn(pass(near_in, far_out, Arc::clone(&is_cut)));
                tokio::spawn(pass(far_in, near_out, Arc::clone(&is_cut)));
                connections.fetch_add(1, Ordering::Relaxed);
            }
        });
        cable
    }

    /// Cuts the cable: no bytes get through, and connections stay open and silent.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Mends the cable. Bytes that were sent while the cable was cut arrive late, as over TCP.
    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }

    /// Returns the number of connections that were made through the cable.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn pass(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, is_cut: Arc<AtomicBool>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        while is_cut.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(5)).await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    while is_cut.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(5)).await;
    }
    let _ = to.shutdown().await;
}
