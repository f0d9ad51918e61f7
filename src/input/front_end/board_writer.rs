//! [`BoardWriter`]: the way to a board on the connection on which it sends its frames.

#[cfg(test)]
mod tests;

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::fs::OFlags;
use tokio::{
    io::AsyncWriteExt as _,
    net::{tcp, unix},
    sync::{Mutex, watch},
    time::sleep,
};

/// Pause before the next attempt to write to a device that takes nothing at present.
const PAUSE: Duration = Duration::from_millis(10);

/// The sending side of a board's connection. The board would take its end for that of the
/// connection, so it stays open as long as the receiving side.
#[derive(Debug)]
pub(super) enum BoardLine {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    /// A file, of which only a character device takes bytes.
    Device(PathBuf),
}

/// The way to a board to which a source connects, from [`BoardStream::writer`]: what a board must
/// be told can be sent on the connection on which it sends its frames. Clones share one connection.
///
/// [`BoardStream::writer`]: super::BoardStream::writer
#[derive(Clone, Debug, Default)]
pub struct BoardWriter(watch::Sender<Option<Arc<Mutex<BoardLine>>>>);

impl BoardWriter {
    /// Sends bytes to the board; waits until it is connected.
    ///
    /// Cancel safety: when the call is dropped, a part of the bytes may have been sent.
    ///
    /// # Errors
    /// The error of the operating system, or [`io::ErrorKind::Unsupported`] for a FIFO or a file,
    /// which are only read.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // The sender is in `self`, so there is no error.
        let line = self.0.subscribe().wait_for(Option::is_some).await.ok().and_then(|line| line.clone());
        let Some(line) = line else { return Err(io::ErrorKind::NotConnected.into()) };
        match &mut *line.lock().await {
            BoardLine::Tcp(stream) => stream.write_all(bytes).await,
            BoardLine::Unix(stream) => stream.write_all(bytes).await,
            BoardLine::Device(path) => write_to_device(path, bytes).await,
        }
    }

    /// Returns true if the board is connected.
    pub fn is_connected(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(super) fn open(&self, line: BoardLine) {
        self.0.send_replace(Some(Arc::new(Mutex::new(line))));
    }

    pub(super) fn close(&self) {
        self.0.send_replace(None);
    }
}

/// Writes bytes to a character device, and waits while it is full.
async fn write_to_device(path: &Path, mut bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut device = OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !device.metadata()?.file_type().is_char_device() {
        let path = path.display();
        let reason = format!(
            "{path} is a FIFO or a file, which is only read; write the path of a device or socket as `path` of this source's input, or leave out `send`"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    while !bytes.is_empty() {
        match device.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(PAUSE).await,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
