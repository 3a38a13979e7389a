//! Whether a text has any of some bytes.

/// Whether `is_one` is true of any byte. There is no branch for each byte, and for a short text no loop over single bytes:
/// every value of every row comes through here, and most have 10 to 30 bytes.
#[inline]
pub(crate) fn any_byte(bytes: &[u8], is_one: impl Fn(u8) -> bool + Copy) -> bool {
    // The last block overlaps the one before it, so that nothing is left over.
    if let Some(last) = bytes.last_chunk::<16>() {
        let (blocks, _) = bytes.as_chunks::<16>();
        let in_last = any_of(last, is_one);
        return blocks
            .iter()
            .fold(in_last, |found, block| found | any_of(block, is_one));
    }
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => any_of(first, is_one) | any_of(last, is_one),
        _ => bytes.iter().any(|byte| is_one(*byte)),
    }
}

/// The same for so many bytes together: the compiler makes one or two instructions of it.
#[inline]
fn any_of<const N: usize>(bytes: &[u8; N], is_one: impl Fn(u8) -> bool) -> bool {
    bytes
        .iter()
        .fold(false, |found, byte| found | is_one(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in 0..70 {
            let mut bytes = vec![b'a'; length];
            assert!(!any_byte(&bytes, |byte| byte == b'x'), "{length}");
            for at in 0..length {
                bytes.fill(b'a');
                bytes.splice(at..=at, [b'x']);
                assert!(any_byte(&bytes, |byte| byte == b'x'), "{at} of {length}");
            }
        }
    }
}
