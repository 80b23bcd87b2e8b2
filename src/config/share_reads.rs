//! Whether local readers of a read/write lock share a hold.

use super::Config;

impl Config {
    /// Sets whether readers of this client [share a hold](crate::ReadWriteLock#readers-of-one-process), and
    /// read/write locks are handed off, as [`pass_on`](Config::pass_on) says. Default: no.
    ///
    /// Experimental: where the server is far, writers of other processes may wait for longer.
    pub fn share_reads(mut self, share_reads: bool) -> Self {
        self.share_reads = share_reads;
        self
    }
}
