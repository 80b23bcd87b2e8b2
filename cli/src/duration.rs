//! Durations of the command line: `10`, `1.5s`, `500ms`, `2m`, `1h`.

use std::time::Duration;

/// The longest that is taken for meant: a year.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

/// Reads a duration. A number without a unit is in seconds.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("the unit must be ms, s, m or h".into()),
    };
    let is_plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: Option<f64> = is_plain.then(|| number.parse().ok()).flatten();
    let Some(seconds) = number.map(|number| number * unit) else {
        return Err("not a duration such as 10s, 500ms or 2m".into());
    };
    if seconds > LONGEST {
        return Err("longer than a year".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same for a lease: long enough to be renewed, or to end a command before its end.
pub(crate) fn read_lease(text: &str) -> Result<Duration, String> {
    let lease = read(text)?;
    if lease < Duration::from_secs(1) {
        return Err("shorter than 1s".into());
    }
    Ok(lease)
}

/// The same for a lease that is renewed.
pub(crate) fn read_watchdog(text: &str) -> Result<Duration, String> {
    let lease = read_lease(text)?;
    // As `Config::watchdog`.
    if lease > Duration::from_secs(24 * 3600) {
        return Err("longer than 24h".into());
    }
    Ok(lease)
}

/// The same for what repeats.
pub(crate) fn read_interval(text: &str) -> Result<Duration, String> {
    let interval = read(text)?;
    if interval < Duration::from_millis(100) {
        return Err("shorter than 100ms".into());
    }
    Ok(interval)
}

/// A duration to be read by people: `1.5s`, `12ms`, `3m05s`.
pub(crate) fn shown(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.1}s", duration.as_secs_f64()),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_in_seconds_unless_it_has_a_unit() {
        let ms = |text| read(text).unwrap().as_millis();
        assert_eq!(ms("10"), 10_000);
        assert_eq!(ms("1.5s"), 1_500);
        assert_eq!(ms("250ms"), 250);
        assert_eq!(ms("2m"), 120_000);
        assert_eq!(ms("1h"), 3_600_000);
        assert_eq!(ms("0"), 0);
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in
            ["", "s", "-1", "1x", "1 s", "1e3", "nan", "inf", "1.2.3", "9999999999h", "10ss"]
        {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read_lease("999ms").is_err());
        assert!(read_lease("1s").is_ok());
        assert!(read_lease("25h").is_ok());
        assert!(read_watchdog("999ms").is_err() && read_watchdog("86401s").is_err());
        assert!(read_watchdog("24h").is_ok());
        assert!(read_interval("99ms").is_err());
    }

    #[test]
    fn a_duration_is_shown_in_its_largest_unit() {
        let shown = |ms| shown(Duration::from_millis(ms));
        assert_eq!(shown(12), "12ms");
        assert_eq!(shown(1_500), "1.5s");
        assert_eq!(shown(185_000), "3m05s");
        assert_eq!(shown(7_500_000), "2h05m");
    }
}
