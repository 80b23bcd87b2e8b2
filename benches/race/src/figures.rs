//! Medians and percentiles.

/// The middle one; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Of sorted values, the one at the nearest rank; 0 of none.
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// `12345.6` as `12 346`, `3.14159` as `3.1`, `0.0123` as `0.01`.
pub(crate) fn readable(value: f64) -> String {
    if value >= 10.0 {
        return grouped(value.round() as u64);
    }
    let digits = if value >= 3.0 { 1 } else { 2 };
    format!("{value:.digits$}")
}

fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{} {:03}", grouped(number / 1_000), number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rank_counts() {
        let sorted: Vec<u32> = (1..=200).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&sorted, percent)), [100, 198, 200]);
        assert_eq!(percentile(&[7], 1), 7);
        assert_eq!(percentile::<u32>(&[], 50), 0);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let cases = [(1_234_567.4, "1 234 567"), (10.4, "10"), (9.96, "10.0"), (0.128, "0.13")];
        for (value, text) in cases {
            assert_eq!(readable(value), text);
        }
    }
}
