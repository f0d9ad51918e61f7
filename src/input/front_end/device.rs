//! [`Device`]: a FIFO, a character device or a file from which frames are read.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::fs::OFlags;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::unix::pipe,
    task::coop::poll_proceed,
};

/// A file that is open for reading.
#[derive(Debug)]
pub(super) enum Device {
    /// The kernel tells when there is something to read.
    Polled(pipe::Receiver),
    /// A read never waits: a regular file, or a device such as `/dev/zero`.
    Ready(File),
}

impl Device {
    /// Opens the file, and waits until it has bytes.
    ///
    /// # Errors
    /// The operating system's error: there is no such file, or it may not be read.
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        // The receiver of a pipe reads any file that the kernel can watch.
        match pipe::Receiver::from_file_unchecked(open(path)?) {
            Ok(polled) => {
                // A FIFO has bytes, or an end, only when a program has opened it for writing.
                polled.readable().await?;
                Ok(Self::Polled(polled))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Self::Ready(open(path)?)),
            Err(error) => Err(error),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

impl AsyncRead for Device {
    /// Reads a pipe or device when the kernel says that it is ready, and any other file at once.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Polled(polled) => Pin::new(polled).poll_read(cx, into),
            Self::Ready(file) => {
                // A file that always has bytes must leave time to others.
                let cooperates = ready!(poll_proceed(cx));
                let count = file.read(into.initialize_unfilled())?;
                cooperates.made_progress();
                into.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Polled(polled) => polled.as_fd(),
            Self::Ready(file) => file.as_fd(),
        }
    }
}
