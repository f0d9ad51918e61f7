//! [`Relay`]: an attacker between two peers, who changes single bits.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Accepts connections and passes their bytes on.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    flips: Arc<AtomicU64>,
}

/// The byte that is changed, only on the first connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flip {
    /// True if the byte comes from the side that connects.
    pub(crate) is_there: bool,
    pub(crate) byte: usize,
}

impl Relay {
    /// Relays connections to `target`.
    pub(crate) async fn to(target: SocketAddr, flip: Option<Flip>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
        let address = listener.local_addr().expect("a bound socket");
        let flips = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&flips);
        tokio::spawn(async move {
            let mut flip = flip;
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(target).await else { continue };
                let of = |is_there| flip.filter(|flip| flip.is_there == is_there).map(|flip| flip.byte);
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(carry(near_in, far_out, of(true), Arc::clone(&counted)));
                tokio::spawn(carry(far_in, near_out, of(false), Arc::clone(&counted)));
                flip = None;
            }
        });
        Self { address, flips }
    }

    /// Returns the number of bits that were changed.
    pub(crate) fn flips(&self) -> u64 {
        self.flips.load(Ordering::Relaxed)
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, flip: Option<usize>, flips: Arc<AtomicU64>) {
    let (mut buffer, mut before) = (vec![0; 4096], 0);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if let Some(at) = flip.and_then(|byte| byte.checked_sub(before)).filter(|at| *at < read) {
            buffer[at] ^= 1 << (at % 8);
            flips.fetch_add(1, Ordering::Relaxed);
        }
        before += read;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
