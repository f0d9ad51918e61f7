//! The reading half: a thread that merges the files of a run, verifies every checksum, and fills
//! blocks, while the other half writes the block before.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use evb_file::{FileIdentity, Merge, MergeError, Selection};

use crate::{block::Block, counts::Counts};

/// Number of blocks that exist: one that is filled, one that waits, one that is written.
const BLOCKS: usize = 3;

/// A run that is being read.
pub(crate) struct Reading {
    /// The run and its sources.
    pub(crate) identity: FileIdentity,
    full: Receiver<Block>,
    empty: SyncSender<Block>,
    thread: JoinHandle<Result<Counts, MergeError>>,
}

impl Reading {
    /// Opens all files and begins to read.
    pub(crate) fn begin(paths: &[PathBuf], selection: &Selection) -> Result<Self, MergeError> {
        let merge = Merge::open(paths, selection)?;
        let identity = merge.identity().clone();
        let (to_writer, full) = sync_channel(BLOCKS);
        let (empty, to_fill) = sync_channel(BLOCKS);
        for _ in 0..BLOCKS {
            // The channel has room for all blocks, so this never waits or fails.
            let _ = empty.send(Block::default());
        }
        let thread = thread::spawn(move || fill(merge, &to_fill, &to_writer));
        Ok(Self { identity, full, empty, thread })
    }

    /// Waits for the next block. Returns `None` after the last one.
    pub(crate) fn next(&self) -> Option<Block> {
        self.full.recv().ok()
    }

    /// Gives a block back after it was written.
    pub(crate) fn recycle(&self, block: Block) {
        // The thread may have ended.
        let _ = self.empty.send(block);
    }

    /// Returns the counts after the last block, or the error that ended the reading.
    pub(crate) fn finish(self) -> Result<Counts, MergeError> {
        drop((self.full, self.empty));
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Fills blocks until the run ends, or the writer does.
fn fill(mut merge: Merge, empty: &Receiver<Block>, full: &SyncSender<Block>) -> Result<Counts, MergeError> {
    let (mut counts, mut more) = (Counts::default(), true);
    while more && let Ok(mut block) = empty.recv() {
        block.clear();
        while !block.is_full() {
            let Some(record) = merge.next_into(&mut block.memory)? else {
                more = false;
                break;
            };
            counts.add(&record);
            block.add(record);
        }
        if full.send(block).is_err() {
            break;
        }
    }
    counts.finish(merge.report());
    Ok(counts)
}
