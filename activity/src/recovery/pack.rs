//! Compressed contents: gzip, so that a person can read them with the system's own tools.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::fsx::hex;
use crate::limits::{COPY_BLOCK, PACK_PERCENT, PACK_SAMPLE};
use crate::lines::read_at;

/// What a compressed content holds.
pub(super) fn unpack(packed: File) -> impl Read {
    MultiGzDecoder::new(BufReader::new(packed))
}

/// Compresses all of `from` into `to`; size and SHA-256 of what was read.
pub(super) fn pack(from: &File, to: impl Write) -> io::Result<(u64, String)> {
    let mut encoder = GzEncoder::new(to, Compression::default());
    let mut hash = Sha256::new();
    let read = each_block(from, u64::MAX, |block| {
        hash.update(block);
        encoder.write_all(block)
    })?;
    encoder.finish()?.flush()?;
    Ok((read, hex(&hash.finalize())))
}

/// Whether the beginning of a content shrinks enough.
pub(super) fn is_worth_it(from: &File) -> io::Result<bool> {
    let mut encoder = GzEncoder::new(Counter(0), Compression::fast());
    let read = each_block(from, PACK_SAMPLE, |block| encoder.write_all(block))?;
    let packed = encoder.finish()?.0;
    Ok(packed <= read / 100 * PACK_PERCENT)
}

fn each_block(
    from: &File,
    limit: u64,
    mut then: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut block = vec![0; COPY_BLOCK];
    let mut at = 0;
    while at < limit {
        let count = read_at(from, &mut block, at)?;
        if count == 0 {
            break;
        }
        then(&block[..count])?;
        at += count as u64;
    }
    Ok(at)
}

/// Counts what is written.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
