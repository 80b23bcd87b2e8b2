//! [`Digits`]: a number as text, without an allocation.

/// As many digits as a `u64` has at most.
const MOST: usize = 20;

/// Where a number is written.
pub(crate) struct Digits([u8; MOST]);

impl Digits {
    pub(crate) fn new() -> Self {
        Self([0; MOST])
    }

    /// The decimal digits of this number.
    pub(crate) fn of(&mut self, mut number: u64) -> &[u8] {
        let mut at = MOST;
        loop {
            at -= 1;
            self.0[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_written_as_by_the_standard_library() {
        let mut digits = Digits::new();
        let edges = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
        for number in edges.chain([7, 10, 99, 100, 1_000_000_007, u64::MAX]) {
            assert_eq!(digits.of(number), number.to_string().as_bytes());
        }
    }
}
