//! Which content a file has, as far as `stat` tells.

use bytes::{BufMut as _, Bytes, BytesMut};
use rustix::fs::Stat;

/// Names a file and its content. A program can set the time of the last write back, but not the
/// one at which it did that. Two writes within one tick of the kernel's clock (up to 4 ms before
/// Linux 6.13) may have one version.
pub(super) fn version(found: &Stat) -> Bytes {
    let mut bytes = BytesMut::with_capacity(7 * 8);
    bytes.put_u64(found.st_dev);
    bytes.put_u64(found.st_ino);
    bytes.put_i64(found.st_size);
    for (seconds, nanoseconds) in
        [(found.st_mtime, found.st_mtime_nsec), (found.st_ctime, found.st_ctime_nsec)]
    {
        bytes.put_i64(seconds);
        bytes.put_slice(&nanoseconds.to_be_bytes());
    }
    bytes.freeze()
}
