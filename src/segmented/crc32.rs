//! CRC-32, as zlib, gzip, PNG and `java.util.zip.CRC32` compute it.

/// The reversed polynomial.
const POLYNOMIAL: u32 = 0xedb8_8320;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

pub(super) fn of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ TABLE[(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `zlib.crc32` of Python.
    #[test]
    fn it_is_the_crc_of_zlib() {
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"123456789"), 0xcbf4_3926);
        assert_eq!(of(b"user:42"), 0x646f_0d86);
        assert_eq!(of("Grüße".as_bytes()), 0xfbd3_7071);
    }
}
